"""A forced transport, a collective that stands still, a fabric that is switched off: what their judges make of each."""

import dataclasses

import pytest

from pytest_gpucluster.evidence import Evidence, read
from pytest_gpucluster.judge.fabric import (
    bus_bandwidth,
    forced_transport,
    shared,
    stalled_collective,
    switched_off,
)
from pytest_gpucluster.mutants import base
from pytest_gpucluster.requirement import Verdict
from tests.defects import matrix


@pytest.fixture(scope="module")
def recorded():
    """Return the constructed evidence of a scenario."""
    return lambda name: read(matrix.HOST / f"{name}.jsonl")


def changed(evidence, event, change):
    """Return the evidence with facts of one kind changed; a change that returns False drops the line."""

    def act(_, told):
        keep = change(told) if told.get("event") == event else True
        return None if keep is False else told

    return base.words(evidence, act)


def logged(evidence, change, pods=""):
    """Return the evidence with lines of NCCL logs changed; None drops a line."""
    lines = []
    for line in evidence.lines:
        text = str(line.data.get("line") or "")
        if line.type == "LOG" and text.startswith("[rank") and pods in str(line.data.get("pod")):
            told = change(text)
            if told is None:
                continue
            lines.append(dataclasses.replace(line, data={**line.data, "line": told}))
        else:
            lines.append(line)
    return base.with_lines(evidence, lines)


def waited_in_vain(evidence):
    """Return the evidence of a driver that gave up."""
    note = {"note": "timed-out", "what": "all ranks have ended", "seconds": 900}
    last = dataclasses.replace(evidence.lines[-1], type="NOTE", kind="", object={}, data=note)
    return base.with_lines(evidence, [*evidence.lines, last])


def forced(evidence):
    """Judge FAB-010."""
    return forced_transport.forms(evidence, evidence.given)


def stall(evidence):
    """Judge FAB-011."""
    return stalled_collective.ends_named(evidence, evidence.given)


def sockets(evidence):
    """Judge FAB-016."""
    return switched_off.seen_on_sockets(evidence, evidence.given)


def test_a_forced_network_that_is_used_passes(recorded):
    """One communicator of all ranks over it, and each rank's log says that it was forced."""
    finding = forced(recorded("forced-transport"))
    assert finding.verdict is Verdict.PASS
    assert "one communicator of 8 ranks over IB" in finding.observed


def test_an_error_of_a_forced_network_is_a_fail(recorded):
    """The rank tells what NCCL said, and the likeliest causes are those of an adapter that is not in the pod."""

    def fail(word):
        if word["rank"] == 2:
            word.update(event="failed", error="NCCL error: Failed to initialize any NET plugin")

    finding = forced(changed(recorded("forced-transport"), "done", fail))
    assert finding.verdict is Verdict.FAIL
    assert "NCCL_NET=IB: rank 2" in finding.observed
    assert "RDMA resource" in finding.causes[0].fix


@pytest.mark.parametrize(
    ("change", "verdict", "text"),
    [
        (lambda t: t.replace("NET/IB/1/GDRDMA", "NET/Socket/0"), Verdict.FAIL, "connected over Socket"),
        (lambda t: t.replace("nranks 8", "nranks 4").replace("nRanks 8", "nRanks 4"), Verdict.FAIL, "4 of 8 ranks"),
        (lambda t: None if " via NET/" in t else t, Verdict.INCONCLUSIVE, "printed a connection"),
        (
            lambda t: t.replace("NCCL_IB_HCA set by environment to", "NCCL_NET set by environment to OFI"),
            Verdict.INCONCLUSIVE,
            "in effect is OFI",
        ),
        (lambda _: None, Verdict.INCONCLUSIVE, "no communicator"),
    ],
)  # fmt: skip
def test_what_the_logs_of_a_forced_run_say(recorded, change, verdict, text):
    """Another network is a violation; a log that lacks what it must say decides nothing."""
    finding = forced(logged(recorded("forced-transport"), change))
    assert finding.verdict is verdict
    assert text in finding.observed


def test_a_stall_that_all_ranks_explain_passes(recorded):
    """Within the bound, with rank, collective and transport."""
    finding = stall(recorded("stalled-collective"))
    assert finding.verdict is Verdict.PASS
    assert "all_reduce over NET/IB/0, P2P/CUMEM waited for rank 7" in finding.observed
    assert finding.numbers[0].value < finding.numbers[0].bound


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"absent": [3]}, "it says that [3] is missing, but rank 7 is"),
        ({"absent": []}, "it says that no rank is missing"),
        ({"collective": ""}, "which collective"),
        ({"transport": ""}, "which transport"),
        ({"waited": None}, "how long it waited"),
        ({"waited": 600.0}, "waited 600 s; the bound is 60 s"),
    ],
)
def test_a_diagnosis_that_lacks_something_is_a_fail(recorded, change, text):
    """One rank is enough."""

    def spoil(word):
        if word["rank"] == 4:
            word.update(change)

    finding = stall(changed(recorded("stalled-collective"), "stalled", spoil))
    assert finding.verdict is Verdict.FAIL
    assert text in finding.observed
    assert "rank 4" in finding.where[0]


def test_a_hang_is_a_fail(recorded):
    """The driver waited in vain: whatever some ranks said."""
    hung = changed(recorded("stalled-collective"), "stalled", lambda w: w["rank"] != 1)
    finding = stall(waited_in_vain(hung))
    assert finding.verdict is Verdict.FAIL
    assert "rank 1" in finding.where[0]


def ended_by(evidence, code, *, deleted=False):
    """Return the evidence whose second member ended with a code and without a word, its pod perhaps deleted before."""
    said = base.words(evidence, lambda _, w: None if w.get("rank", 0) >= 4 and w["event"] != "who" else w)
    lines = []
    for line in said.lines:
        made = base.clone(dict(line.object))
        for status in (made.get("status") or {}).get("containerStatuses") or ():
            end = (status.get("state") or {}).get("terminated")
            if line.kind == "Pod" and end is not None and str(line.name).endswith("worker-1"):
                end["exitCode"] = code
                if deleted:
                    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        lines.append(dataclasses.replace(line, object=made))
    return base.with_lines(said, lines)


@pytest.mark.parametrize(
    ("code", "deleted", "verdict", "cause"),
    [
        (137, False, Verdict.INCONCLUSIVE, "a signal ended"),
        (137, True, Verdict.FAIL, "without naming"),
        (134, False, Verdict.FAIL, "without naming"),
        (1, False, Verdict.FAIL, "without naming"),
    ],
)
def test_a_member_that_was_killed_cannot_say_whom_it_waited_for(recorded, code, deleted, verdict, cause):
    """Nobody sends SIGKILL to himself; a rank that gave up, or whose pod was deleted, had its chance to speak."""
    finding = stall(ended_by(recorded("stalled-collective"), code, deleted=deleted))
    assert finding.verdict is verdict
    assert cause in finding.causes[0].text
    if verdict is Verdict.INCONCLUSIVE:
        assert "worker-1" in finding.where[0]
        assert "(exit code 137)" in finding.observed


@pytest.mark.parametrize("event", ["failed", "stalled", ""])
@pytest.mark.parametrize(("code", "killed"), [(137, True), (139, True), (1, False)])
def test_who_was_killed_is_named_before_those_who_lost_him(recorded, event, code, killed):
    """The others tell of a connection that was reset: that they were left is no fault of theirs."""

    def lose(word):
        if event and word["rank"] < 4 and word["event"] == "done":
            word.update(event=event, error="Connection reset by peer", collective="all_reduce")

    evidence = recorded("forced-transport")
    lost = changed(ended_by(evidence, code), "done", lose)
    finding = without_figures(lost)
    assert finding.verdict is (Verdict.FAIL if event else Verdict.INCONCLUSIVE)
    assert ("a signal ended" in finding.causes[0].text) is killed
    assert ("worker-1" in finding.where[0]) is (killed or not event)


def without_figures(evidence):
    """Judge what ranks that told no figures make of a row."""
    gang = shared.subject(evidence, evidence.given)
    return bus_bandwidth.incomplete(evidence, evidence.given, shared.told(evidence, gang), gang, "figures")


def test_a_stall_that_did_not_happen_shows_nothing(recorded):
    """All ranks ended as if nothing had been."""
    quiet = changed(recorded("stalled-collective"), "stalled", lambda _: False)
    assert stall(quiet).verdict is Verdict.INCONCLUSIVE


def test_sockets_are_seen_with_both_figures(recorded):
    """All ranks reach the other node over sockets; the figure stands beside the good one."""
    finding = sockets(recorded("sockets"))
    assert finding.verdict is Verdict.PASS
    assert "all_reduce of 1G" in finding.observed
    assert len(finding.where) == 8
    assert all(number.bound is None for number in finding.numbers)


@pytest.mark.parametrize(
    ("change", "pods", "text"),
    [
        (lambda t: t.replace("NET/Socket/0", "NET/IB/0/GDRDMA"), "off-worker", "still connected over IB"),
        (lambda t: None if " via NET/" in t else t, "off-worker", "shows no connection between nodes"),
        (
            lambda t: t.replace("NET/IB/2/GDRDMA", "NET/Socket/0"),
            "sockets-worker",
            "the fabric on is on sockets",
        ),
        (lambda t: None if " via NET/" in t else t, "sockets-worker", "shows no connection between nodes"),
    ],
)
def test_a_control_that_does_not_show_decides_nothing(recorded, change, pods, text):
    """Neither a pass nor a violation: nothing is known of what this cluster would show."""
    finding = sockets(logged(recorded("sockets"), change, pods))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert text in finding.observed


def test_without_the_second_run_nothing_is_known(recorded):
    """The run with the fabric switched off was refused."""
    evidence = recorded("sockets")
    roles = {key: value for key, value in evidence.given["roles"].items() if key != "contrast"}
    header = {**evidence.header, "given": {**evidence.given, "roles": roles}}
    alone = Evidence(evidence.lines, header=header, spans=evidence.spans)
    assert sockets(alone).verdict is Verdict.INCONCLUSIVE


def test_the_files_are_what_the_program_writes():
    """Constructed evidence says so in its header, and nobody edits it by hand."""
    for path in sorted(matrix.HOST.glob("*.jsonl")):
        header = read(path).header
        if path.stem in {"collectives", "forced-transport", "stalled-collective", "sockets"}:
            assert "made up" in header["constructed"]


def test_a_rank_that_says_it_stood_still_and_never_ends_is_a_fail(recorded):
    """Its pod ran on until it was deleted; where nobody watched the pods, nothing is known of their end."""
    evidence = recorded("stalled-collective")
    running = []
    for line in evidence.lines:
        status = line.object.get("status", {}) if line.kind == "Pod" else {}
        ended = any("terminated" in each["state"] for each in status.get("containerStatuses", []))
        if status.get("phase") not in ("Succeeded", "Failed") and not ended:
            running.append(line)
    endless = base.with_lines(evidence, running)
    finding = stall(endless)
    assert finding.verdict is Verdict.FAIL
    assert "never ended" in finding.observed
    blind = Evidence(endless.lines, header=endless.header, spans=())
    assert stall(blind).verdict is Verdict.INCONCLUSIVE


def test_a_rank_whose_container_has_ended_is_not_taken_for_one_that_runs_on(recorded):
    """Seen on real kubelets: the phase follows a second later, and the Job deletes a pod whose fellow has failed."""
    evidence = recorded("stalled-collective")
    lines = []
    for line in evidence.lines:
        status = line.object.get("status", {}) if line.kind == "Pod" else {}
        if status.get("phase") == "Failed":
            gone = {**line.object["metadata"], "deletionTimestamp": "2026-11-30T20:20:07Z"}
            for change in ({}, {"metadata": gone}):
                told = {**line.object, "status": {**status, "phase": "Running"}, **change}
                lines.append(dataclasses.replace(line, type="MODIFIED", object=told))
        else:
            lines.append(line)
    assert len(lines) > len(evidence.lines)
    assert stall(base.with_lines(evidence, lines)).verdict is Verdict.PASS


@pytest.mark.parametrize("change", [{"waited": 3.0}, {"waited": float("nan")}, {"waited": -60.0}, {"bound": 1e9},
                                    {"bound": 0.5, "waited": 0.6}, {"t": 1.8e9}])  # fmt: skip
def test_a_wait_that_cannot_have_been_is_no_pass(recorded, change):
    """Shorter than its own bound, under another bound than was set, longer than the rank ran."""
    begun = changed(
        recorded("stalled-collective"), "who", lambda w: w.update(t=1.8e9 if "t" in change else 0.0)
    )
    odd = changed(begun, "stalled", lambda w: w.update(change))
    assert stall(odd).verdict is not Verdict.PASS
