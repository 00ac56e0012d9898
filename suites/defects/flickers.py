"""Defects that a look at the end, or at the last attempt, does not see; and refusals that prove nothing."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {}

_BOTH = dict.fromkeys(("REF-003", "REF-004"), "inconclusive")

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "admission.foreign-gate": _BOTH,
    "admission.other-reason": _BOTH,
    "admission.pods-unwatched": _BOTH,
    "admission.control-refused": {"REF-003": "inconclusive"},
    "admission.control-of-another": {"REF-003": "inconclusive"},
    "admission.no-control": {"REF-003": "inconclusive"},
    "admission.queue-stopped": {"KUE-008": "inconclusive"},
    "admission.made-all-the-same": {"REF-003": "fail", "REF-004": "fail"},
    "control.never-runs": {
        "REF-001": "environment",
        "REF-002": "environment",
        "REF-004": "inconclusive",
        "REF-005": "inconclusive",
        "REF-008": "inconclusive",
    },
    "control.winner-never-runs": {
        "GANG-004": "inconclusive",
        "KUE-003": "fail",
        "RDZV-005": "environment",
        "RDZV-006": "environment",
    },
    "moment.part-bound": dict.fromkeys(("GANG-002", "GANG-003", "GANG-004", "GANG-005"), "fail"),
    "moment.minimum-short": dict.fromkeys(("GANG-001", "GANG-006"), "fail"),
    "moment.stray-bound": {
        **dict.fromkeys(("GANG-002", "GANG-003", "GANG-004", "GANG-005", "REF-009", "TRN-003"), "fail"),
        **dict.fromkeys(("GANG-006", "REF-006", "REF-007", "LIFE-013", "LIFE-014"), "inconclusive"),
    },
    "moment.refused-bound": {"REF-001": "fail", "REF-002": "fail", "REF-005": "inconclusive"},
    "moment.ends-alone": {"LIFE-001": "inconclusive", "LIFE-002": "inconclusive"},
    "moment.old-member-stays": {"LIFE-003": "fail"},
    "moment.attempts-uncounted": {"LIFE-004": "fail"},
    "moment.resumed-twice": {"LIFE-009": "fail"},
    "moment.removed-late": {"LIFE-005": "fail"},
    "moment.bound-late": {
        **dict.fromkeys(("GANG-002", "GANG-003", "GANG-005"), "fail"),
        "LIFE-014": "inconclusive",
    },
    "moment.evicted-slowly": dict.fromkeys(("KUE-004", "KUE-005"), "fail"),
    "moment.gives-up-late": dict.fromkeys(("RDZV-003", "RDZV-004", "RDZV-008", "RDZV-009"), "fail"),
    "moment.completed-late": {"LIFE-001": "fail"},
    "earlier.label-gone": {"PLG-007": "fail"},
    "earlier.step-wrong": {"RDZV-002": "fail"},
    "earlier.pod-before-quota": {"KUE-001": "fail"},
}
