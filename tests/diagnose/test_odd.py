"""Objects that no API server would have taken: what can be said of them is said, and nothing breaks."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_gpucluster import diagnose
from pytest_gpucluster.plain.copies import clone
from tests import recordings
from tests.diagnose import before, running
from tests.diagnose.planting import Dump

MODES = {**before.MODES, **running.MODES}
JUNK: tuple[Any, ...] = (None, "", 0, -1, "x", [], {}, [1], {"a": 1}, True, [None], "2026-13-45T99:00:00Z")


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _paths(inner, (*path, key))


def _spoil(dump: Dump, chance: random.Random) -> None:
    """Take fields away, or put junk in their place."""
    dump.objects = clone(dump.objects)
    for obj in chance.sample(dump.objects, min(4, len(dump.objects))):
        path = chance.choice([p for p in _paths(obj) if p not in {("kind",), ("apiVersion",)}])
        place = obj
        for key in path[:-1]:
            place = place[key]
        if chance.random() < 0.4:
            place.pop(path[-1])
        else:
            place[path[-1]] = chance.choice(JUNK)


@pytest.mark.parametrize("seed", range(8))
def test_spoilt_objects_break_nothing(seed: int):
    """Every mode with a few fields gone or of another type: a diagnosis comes out, with every question answered."""
    chance = random.Random(seed)  # noqa: S311 - a repeatable choice
    for mode in sorted(MODES):
        dump = MODES[mode][0]()
        _spoil(dump, chance)
        evidence = diagnose.unfold(dump.objects, now=dump.now, logs=dump.logs, extra=dump.extra)
        for subject in diagnose.subjects(evidence):
            found = diagnose.diagnose(subject, recordings.JUDGES)
            assert diagnose.render(found, full=True)
            assert not [line for line in found.missing if line.startswith("the check")], found.missing


def test_a_question_that_breaks_costs_only_itself(monkeypatch: pytest.MonkeyPatch):
    """The others are asked all the same, and that one was not is said."""

    def broken(_: diagnose.Situation) -> Iterator[diagnose.Suspect]:
        raise KeyError("spec")
        yield

    plant, code, _ = MODES["ResourceQuota"]
    dump = plant()
    monkeypatch.setattr("pytest_gpucluster.diagnose.run.DETECTORS", (broken, *_detectors()))
    found = dump.diagnose()
    assert found.suspects[0].code == code
    assert any("'broken' cannot read this evidence" in line for line in found.missing)


def _detectors() -> tuple[diagnose.Detector, ...]:
    from pytest_gpucluster.diagnose.detect.table import DETECTORS

    return DETECTORS
