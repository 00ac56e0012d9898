"""What of names and messages differs from run to run."""

import re

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
DIGITS = re.compile(r"\d+")
GENERATED = re.compile(r"-(?:[bcdfghjklmnpqrstvwxz2456789]{5,10}|[0-9a-f]{5})\b")
"""What API server and controllers end a name with: letters without vowels (up to ten for 32 bits), or a hash."""
RIVAL = re.compile(r"-(?:left|right)\b")
"""Two gangs that compete for room of one: which of them wins is free."""
SEVERAL = "(combined from similar events): "


def masked(text: str) -> str:
    """Return a text with uids and numbers replaced."""
    return DIGITS.sub("N", UID.sub("UID", text))


def anonymous(text: str) -> str:
    """Return a text with uids, generated endings of names and numbers replaced."""
    return DIGITS.sub(
        "N", GENERATED.sub("-X", RIVAL.sub("-rival", UID.sub("UID", text.removeprefix(SEVERAL))))
    )
