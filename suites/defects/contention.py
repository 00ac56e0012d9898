"""Defects of how gangs compete: rows REF-006, REF-009, LIFE-013 and LIFE-014, which share two scenarios."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "queue.ignores-priority": {"LIFE-013": "fail", "LIFE-014": "fail", "REF-006": "inconclusive"},
    "preemption.never-takes": {"LIFE-014": "fail", "REF-006": "inconclusive"},
    "preemption.ignores-minimum": {"REF-006": "fail"},
    "preemption.never-gives-back": {"REF-009": "fail"},
}
