"""FAB-019: runs that differ by one switch."""

import pytest

from pytest_gpucluster.evidence import read
from pytest_gpucluster.judge.fabric import switch_effect
from pytest_gpucluster.mutants.fabric_switches import MUTANTS
from pytest_gpucluster.requirement import Verdict
from tests.defects import matrix


@pytest.fixture(scope="module")
def recorded():
    """Return the constructed evidence of a run with everything on and of three with one switch off."""
    return read(matrix.HOST / "switches.jsonl")


def decided(evidence, **told):
    """Judge FAB-019."""
    return switch_effect.has_effect(evidence, {**evidence.given, **told})


def test_three_switches_show(recorded):
    """Path and figure of each, beside those with everything on."""
    found = decided(recorded)
    assert found.verdict is Verdict.PASS
    for text in (
        "P2P off: NET/IB with GPUDirect, P2P/CUMEM became NET/IB with GPUDirect, SHM",
        "RDMA off",
        "GPUDirect off",
    ):
        assert text in found.observed
    assert found.numbers[0].name == "all_reduce of 1G, everything on"
    assert len(found.numbers) == 4


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_each_departure(recorded, name):
    """A switch without effect is a failure with a cause; what is not known is no pass."""
    changed = MUTANTS[name].act(recorded)
    found = decided(changed)
    assert found.verdict == MUTANTS[name].flips["FAB-019"]
    if found.verdict is Verdict.FAIL:
        assert found.violation
        assert found.causes
        assert "the switch had no effect" in found.observed


@pytest.mark.parametrize(
    ("labels", "verdict", "told"),
    [
        (
            {"switches-p2p": "P2P", "switches-nvls": "NVLS"},
            Verdict.INCONCLUSIVE,
            "the run with NVLS switched off was not",
        ),
        ({"switches-p2p": "NVLS"}, Verdict.NOT_APPLICABLE, "NVLS is not in use"),
        ({"switches-p2p": "MNNVL", "switches-rdma": "RDMA"}, Verdict.PASS, "MNNVL is not in use"),
        ({"switches-p2p": "RDMA"}, Verdict.FAIL, "RDMA is labelled off and the ranks still use"),
        ({"switches-p2p": "SHARP"}, Verdict.INCONCLUSIVE, "nobody knows how SHARP shows"),
    ],
)
def test_labels_that_say_something_else(recorded, labels, verdict, told):
    """A label that is not true is found; what nobody uses is not compared."""
    found = decided(recorded, switched=labels)
    assert (found.verdict, told in found.observed) == (verdict, True), found
