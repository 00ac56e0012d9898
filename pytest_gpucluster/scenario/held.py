"""A training queue that is held: runs submit their gangs to another one."""

from typing import Any


def runs_in(profile: Any) -> str:
    """Return the queue to which gangs are submitted: not the declared one while that is held."""
    return str(getattr(profile, "conformance_queue", None) or profile.queue)
