"""Defects of further schedulers, and of native gangs where they are the main ones."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    **{
        f"native.{name}": {"TRN-003": "fail"}
        for name in ("gate-off", "binds-partially", "basic-policy", "min-count-short", "forgets-room")
    },
    "native.never-says": {"TRN-003": "inconclusive"},
}
