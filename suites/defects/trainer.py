"""Defects of further schedulers, of native gangs where they are the main ones, and of JobSet."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    **{
        f"native.{name}": {"TRN-003": "fail", **({} if name == "forgets-room" else {"GANG-012": "fail"})}
        for name in ("gate-off", "binds-partially", "basic-policy", "min-count-short", "forgets-room")
    },
    "native.ignores-topology": {"GANG-012": "fail"},
    "native.never-says": {"TRN-003": "inconclusive", "GANG-012": "inconclusive"},
    "jobset.absent": {"TRN-007": "fail"},
    "jobset.keeps-others": {"TRN-004": "fail"},
    "jobset.restarts-without-end": {"TRN-005": "fail"},
    "jobset.ignores-order": {"TRN-006": "fail"},
    "jobset.no-service": {"TRN-007": "fail"},
}
