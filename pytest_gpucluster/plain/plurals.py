"""A number with its noun."""


def count(number: int, one: str, many: str = "") -> str:
    """Return `1 pod`, `2 pods`; `many` where the plural is not made with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"
