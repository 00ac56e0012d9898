"""What a session is doing right now, told to whoever watches the run; nothing is judged by it."""

from collections.abc import Callable

Tell = Callable[[str, str, float | None], None]
"""Takes the scenario's name, what is done in a few words, and the most seconds it may take, None without a bound."""


def silent(scenario: str, what: str, limit: float | None) -> None:
    """Tell nobody."""
    del scenario, what, limit
