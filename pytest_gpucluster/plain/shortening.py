"""Long messages as they are shown: both ends, and how much was left out. Rules read messages whole."""

MOST = 300
"""Characters of a message that are shown."""


def shown(message: str, most: int = MOST) -> str:
    """Return a message in one line of at most so many characters; of a longer one its beginning and its end.

    What failed stands at the beginning of a chain of errors, and why at its end: the end gets more room.
    """
    text = " ".join(message.split())
    if len(text) <= most:
        return text
    room = max(most - len(f" [... {len(text)} characters ...] "), 2)
    head = room // 3
    tail = room - head
    return f"{text[:head].rstrip()} [... {len(text) - head - tail} characters ...] {text[-tail:].lstrip()}"
