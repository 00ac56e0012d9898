"""FAB-019: runs that differ by one switch."""

import re
from collections import Counter

import pytest

from pytest_gpucluster.evidence import read
from pytest_gpucluster.judge.fabric import switch_effect
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants.fabric_switches import GPUDIRECT, MUTANTS, P2P, RDMA, words
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


def without(run, pattern):
    """Return the mutant whose logs of one run lack some lines, and whose ranks count the rest."""

    def act(evidence):
        lines, left_out = [], Counter()
        for line in evidence.lines:
            text = str(line.data.get("line") or "")
            rank = re.match(r"\[rank(\d+)\]", text)
            if rank and str(line.data.get("pod")).startswith(run) and re.search(pattern, text):
                left_out[line.data.get("uid"), int(rank[1])] += 1
            else:
                lines.append(line)

        def edit(line, word):
            if word.get("event") == "nccl-log" and word.get("part") == "begin":
                word["lines"] -= left_out[line.data.get("uid"), word.get("rank")]
            return word

        return base.words(base.with_lines(evidence, lines), edit)

    return act


@pytest.mark.parametrize(
    ("run", "pattern"),
    [
        (RDMA, r"via NET/"),
        (GPUDIRECT, r"via NET/"),
        (P2P, r" via "),
        (GPUDIRECT, r"^\[rank[4-7]\].* via "),
        (P2P, r"^\[rank[1-7]\].* via "),
        (RDMA, r"^\[rank3\].* via "),
    ],
)
def test_a_path_that_no_log_shows_is_not_another_one(recorded, run, pattern):
    """Logs without lines about paths do not show that a switch moved the traffic."""
    found = decided(without(run, pattern)(recorded))
    assert (found.verdict, "path" in found.observed) == (Verdict.INCONCLUSIVE, True), found


def figures(**fields):
    """Return the change of every figure of a rank."""

    def change(word):
        for one in word.get("results") or []:
            one.update(fields)

    return change


def settings(**fields):
    """Return the change of what one rank had set."""
    return lambda word: word["env"].update(fields) if word["rank"] == 3 else None


@pytest.mark.parametrize(
    ("event", "change"),
    [
        ("measured", figures(busbw=600.0)),
        ("measured", figures(busbw=1.0)),
        ("measured", figures(wrong=3)),
        ("measured", figures(wrong=None)),
        ("measured", figures(iters=1)),
        ("measured", figures(iters=0)),
        ("measured", figures(p90=1e-9)),
        ("who", settings(NCCL_ALGO="Tree")),
        ("who", settings(NCCL_BUFFSIZE="4096")),
        ("who", lambda word: word.update(device_name="NVIDIA A100-SXM4-80GB")),
        ("who", lambda word: word.update(nccl="2.18.1")),
    ],
    ids=[
        "too-fast", "too-slow", "wrong", "unchecked", "once", "never", "percentile", "algorithm", "buffers", "gpu",
        "nccl",
    ],
)  # fmt: skip
@pytest.mark.parametrize("run", [P2P, RDMA, GPUDIRECT])
def test_runs_that_differ_by_more_than_a_switch_show_nothing_of_it(recorded, run, event, change):
    """Wrong data, a figure that its times contradict, too few times, other settings, another GPU or NCCL."""
    found = decided(words(run, event, change)(recorded))
    assert found.verdict is Verdict.INCONCLUSIVE, found


def test_a_switch_that_is_set_in_both_runs(recorded):
    """The run with everything on has one rank in which it is off."""
    found = decided(words("switches-worker", "who", settings(NCCL_P2P_DISABLE="1"))(recorded))
    assert (found.verdict, "with everything on too" in found.observed) == (Verdict.INCONCLUSIVE, True), found


def test_a_run_on_other_nodes_is_told(recorded):
    """What else the nodes change of the figures is for who reads them."""

    def moved(pod):
        if pod["spec"].get("nodeName"):
            pod["spec"]["nodeName"] += "-other"

    def chosen(line):
        return line.kind == "Pod" and line.name.startswith(RDMA)

    found = decided(base.each(recorded, chosen, moved))
    assert (found.verdict, "gpu-0-other" in found.observed) == (Verdict.PASS, True), found
