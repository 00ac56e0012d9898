"""Defects of the isolation of devices."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {"node.devices-leak": {"HLT-004": "fail"}}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "health.sees-all": {"HLT-004": "fail"},
    "health.none-sees-one": {"HLT-004": "fail"},
    "health.driver-lists-one": {"HLT-004": "fail"},
    "health.shares-a-gpu": {"HLT-004": "fail"},
    "health.other-than-told": {"HLT-004": "fail"},
    "health.sees-nothing": {"HLT-004": "fail"},
    "health.unseen": {"HLT-004": "inconclusive"},
    "health.untold": {"HLT-004": "inconclusive"},
}
