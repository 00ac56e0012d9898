"""An asynchronous save holds the state at which it was asked for: what training changed afterwards must not be in it.

The public report `ckpt-async-save-holds-later-values` is one of the kind: one tensor of two is of a later step, and the
checkpoint loads without an error. States are told apart by digests; a state that does not change proves nothing.
"""

import pytest

from pytest_gpucluster.judge.checkpoint import async_pause, resharding
from pytest_gpucluster.mutants import base
from tests import recordings

ASYNC = 20
"""Step of the recording at which the asynchronous save was asked for."""


def with_states(saved, later, loaded, **more):
    """Return the recording in which an asynchronous save saw digests, training reached others, others were loaded."""

    def change(told):
        if told.get("step") != ASYNC:
            return
        if told["event"] == "saved" and told["how"] == "async":
            told |= {"digests": list(saved), "later": list(later), **more}
        elif told["event"] == "loaded":
            told["digests"] = list(loaded)

    evidence = recordings.embedded("checkpoint")
    for event in ("saved", "loaded"):
        evidence = base.on(event, change)(evidence)
    return evidence


def test_the_report_is_judged_right():
    """CKPT-002 fails, names the layer and both digests and says which step they are of; the pause is right."""
    evidence = with_states(saved=["a91c", "77f0"], later=["3be2", "0d14"], loaded=["3be2", "77f0"])
    finding = resharding.loads_elsewhere(evidence)
    assert (str(finding.verdict), finding.causes) == ("fail", (resharding.LATER,))
    assert f"step-{ASYNC} holds other bits in layer 0 (3be2, expected a91c)" in finding.observed
    paused = base.on("paused", lambda told: told.update(call=0.02))(evidence)
    declared = {**evidence.given["storage"], "pause": 1.0}
    assert str(async_pause.pauses_little(paused, {**evidence.given, "storage": declared}).verdict) == "pass"


NEIGHBOURS = {
    "all layers are of the later step": (["a", "b"], ["c", "d"], ["c", "d"], "fail", resharding.LATER),
    "the last layer alone is": (["a", "b"], ["c", "d"], ["a", "d"], "fail", resharding.LATER),
    "the right state": (["a", "b"], ["c", "d"], ["a", "b"], "pass", None),
    "right although one layer does not train": (["a", "b"], ["c", "b"], ["a", "b"], "pass", None),
    "a state of neither step": (["a", "b"], ["c", "d"], ["x", "b"], "fail", resharding.CHANGED),
    "layers in each other's place": (["a", "b"], ["c", "d"], ["b", "a"], "fail", resharding.SWAPPED),
    "weights that never change": (["a", "b"], ["a", "b"], ["a", "b"], "inconclusive", resharding.UNCHANGED),
    "a layer less": (["a", "b"], ["c", "d"], ["a"], "fail", resharding.CHANGED),
    "no digest at all": ([], ["c", "d"], [], "inconclusive", None),
}


@pytest.mark.parametrize("name", sorted(NEIGHBOURS))
def test_neighbours_are_told_apart(name):
    """Which state was loaded decides, and whether it could have been another one."""
    saved, later, loaded, verdict, cause = NEIGHBOURS[name]
    finding = resharding.loads_elsewhere(with_states(saved, later, loaded))
    assert str(finding.verdict) == verdict, finding.observed
    if cause is not None:
        assert finding.causes == (cause,)


@pytest.mark.parametrize("later", [None, "c", ["c"], {"0": "c"}, []])
def test_where_nobody_tells_the_later_state_a_right_one_is_not_shown(later):
    """Without it, or with half of it, it is open whether training changed anything meanwhile."""
    evidence = with_states(["a", "b"], ["c", "d"], ["a", "b"])

    def change(told):
        if told.get("how") == "async":
            told["later"] = later

    finding = resharding.loads_elsewhere(base.on("saved", change)(evidence))
    assert str(finding.verdict) == "inconclusive", finding.observed
