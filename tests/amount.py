"""How much is tried of what has no end: a part by `make test`, all of it by `make everything`."""

from typing import Any

import hypothesis

PART, EVERYTHING = "part", "everything"
SHARE, LEAST = 4, 10


def choose(*, everything: bool) -> None:
    """Register how many examples a property is tried with, and choose; before any module of tests is imported.

    Args:
        everything: Whether each property is tried with its full number of examples instead of a quarter of it.
    """
    hypothesis.settings.register_profile(PART, deadline=None, max_examples=100 // SHARE)
    hypothesis.settings.register_profile(EVERYTHING, deadline=None, max_examples=100)
    hypothesis.settings.load_profile(EVERYTHING if everything else PART)


def all_of_it() -> bool:
    """Report whether all is to be tried."""
    return hypothesis.settings.get_current_profile_name() == EVERYTHING


def examples(full: int, **more: Any) -> hypothesis.settings:
    """Return the settings of a property whose full number of examples is not the usual hundred.

    Examples are drawn anew in each run, so a quarter of them today and a quarter tomorrow are not the same ones.

    Args:
        full: Number of examples in `make everything`.
        more: Further settings of hypothesis.
    """
    return hypothesis.settings(max_examples=full if all_of_it() else max(full // SHARE, LEAST), **more)
