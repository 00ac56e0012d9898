"""Defects of native gangs: what each turns red where the profile says `scheduler: native`."""

from collections.abc import Mapping

NATIVE_FLIPS: Mapping[str, Mapping[str, str]] = {
    "native.basic-policy": {"GANG-002": "fail", "GANG-004": "fail", "GANG-012": "fail", "REF-001": "fail"},
    "native.binds-partially": {
        "GANG-002": "fail",
        "GANG-003": "fail",
        "GANG-004": "fail",
        "GANG-012": "fail",
        "REF-001": "fail",
    },
    "native.forgets-room": {"GANG-002": "fail", "GANG-003": "fail", "GANG-004": "fail"},
    "native.gate-off": {
        "GANG-002": "fail",
        "GANG-003": "inconclusive",
        "GANG-004": "fail",
        "GANG-009": "inconclusive",
        "GANG-012": "fail",
        "REF-001": "fail",
    },
    "native.ignores-topology": {"GANG-012": "fail"},
    "native.min-count-short": {"GANG-002": "fail", "GANG-012": "fail", "REF-001": "fail"},
    "native.never-says": {
        "GANG-002": "inconclusive",
        "GANG-003": "inconclusive",
        "GANG-004": "inconclusive",
        "GANG-012": "inconclusive",
        "REF-001": "inconclusive",
    },
}
"""Live defect -> {requirement id: verdict} under the scheduler `native`, of the rows GANG and REF."""

AS_DOCUMENTED: Mapping[str, str] = {"GANG-009": "fail"}
"""Rows that are red there without any defect: a native PodGroup never takes back that it was placed."""
