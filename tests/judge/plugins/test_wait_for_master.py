"""Judges of the master's port and of the init container that waits for the master."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence, Line
from pytest_gpucluster.judge.plugins import master_port, wait_for_master
from tests import recordings

WAITING, E2, E5 = "waiting", "e2-pytorch", "e5-pytorch-wait-master"
Change = Callable[[dict[str, Any]], None]


def changed(evidence: Evidence, change: Change, name: str = "", kind: str = "Pod") -> Evidence:
    """Return the evidence with every object of a kind (of a name) changed."""
    return mutants.each(evidence, lambda line: line.kind == kind and name in line.name, change)


def envs(obj: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the environment entries of a pod's first container."""
    return obj["spec"]["containers"][0]["env"]


def other_port(obj: dict[str, Any]) -> None:
    """Give every container another port."""
    for entry in envs(obj):
        if entry["name"] == "MASTER_PORT":
            entry["value"] = "23456"


def undeclared(obj: dict[str, Any]) -> None:
    """Declare no port."""
    obj["spec"]["containers"][0].pop("ports", None)


def init_state(state: dict[str, Any]) -> Change:
    """Return the change that puts the init container into a state."""

    def change(obj: dict[str, Any]) -> None:
        for status in obj["status"].get("initContainerStatuses") or []:
            status["state"] = copy.deepcopy(state)
        for status in obj["status"].get("containerStatuses") or []:
            status["state"] = {"waiting": {"reason": "PodInitializing"}}

    return change


@pytest.mark.parametrize(
    ("change", "text"), [(other_port, "MASTER_PORT is '23456'"), (undeclared, "not declared")]
)
def test_another_port_than_asked_for_fails(change: Change, text: str):
    """The value in the container and the declared port are both looked at."""
    finding = master_port.master_port(changed(recordings.stream(E2), change), {})
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert text in finding.observed
    assert finding.causes


def test_an_argument_that_ends_the_reading_is_the_cause():
    """What stands behind an argument that the plugin does not know is ignored, the port too."""

    def arguments(obj: dict[str, Any]) -> None:
        obj["spec"]["plugins"]["pytorch"] = ["--master=master", "--nproc=2", "--port=29500"]

    evidence = changed(changed(recordings.stream(E2), other_port), arguments, kind="Job.batch.volcano.sh")
    finding = master_port.master_port(evidence, {})
    assert finding.verdict == "fail"
    assert "--nproc=2" in finding.causes[0].text


def test_both_halves_must_be_tried_where_we_arranged_it():
    """One Job with --port alone does not show the default."""
    evidence = recordings.embedded(WAITING)
    job = next(line for line in evidence.of_kind("Job.batch.volcano.sh") if "unanswered" in line.name)
    pods = {line.uid for line in evidence.of_kind("Pod") if "unanswered" in line.name}
    alone = mutants.without(evidence, lambda line: line.uid in pods | {job.uid})
    assert master_port.master_port(evidence, evidence.given).verdict == "pass"
    assert master_port.master_port(alone, evidence.given).verdict == "inconclusive"


def test_workers_without_the_init_container_fail_both_rows():
    """The argument was given and did nothing: a version of Volcano that does not know it."""
    bare = changed(recordings.stream(E5), lambda obj: obj["spec"].pop("initContainers", None))
    for judge in (wait_for_master.held_until_the_master_answers, wait_for_master.gives_up_in_time):
        finding = judge(bare, {})
        assert (finding.verdict, finding.violation) == ("fail", True)
        assert "1.14" in finding.causes[0].text


def test_a_worker_that_was_never_let_go_fails():
    """The master listened, the driver waited in vain."""
    evidence = changed(recordings.embedded(WAITING), init_state({"running": {}}), "held-worker")
    late = {
        "t": evidence.end,
        "type": "NOTE",
        "note": "timed-out",
        "what": "the job has ended",
        "seconds": 20,
    }
    told = mutants.with_lines(evidence, [*evidence.lines, *recordings.evidence_of([late]).lines])
    finding = wait_for_master.held_until_the_master_answers(told, evidence.given)
    assert finding.verdict == "fail", finding.observed
    assert "held-worker-0" in finding.where[0]
    assert "29500" in finding.causes[0].text
    assert wait_for_master.held_until_the_master_answers(evidence, evidence.given).verdict == "inconclusive"


def test_a_worker_that_starts_although_the_master_is_silent_fails():
    """A proxy that takes every connection lets workers go: for the one row and for the other."""
    evidence = changed(
        recordings.embedded(WAITING), init_state({"terminated": {"exitCode": 0}}), "unanswered-worker"
    )
    finding = wait_for_master.gives_up_in_time(evidence, evidence.given)
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "went on (exit 0)" in finding.observed
    assert "mesh" in finding.causes[0].text


def stretched(evidence: Evidence, by: float) -> Evidence:
    """Return the evidence in which everything after the silent master's worker began to wait comes later."""
    (began,) = [
        wait.began
        for line in evidence.of_kind("Pod")
        if "unanswered-worker" in line.name and line.type == "ADDED"
        for wait in [wait_for_master.of_pod(evidence, _pod(evidence, line.uid))]
        if wait is not None and wait.began is not None
    ]
    later: list[Line] = [dataclasses.replace(x, t=x.t + by if x.t > began else x.t) for x in evidence.lines]
    return mutants.with_lines(evidence, later)


def _pod(evidence: Evidence, uid: str) -> Any:
    from pytest_gpucluster.evidence.objects.pods import pods

    return next(pod for pod in pods(evidence) if pod.uid == uid)


@pytest.mark.parametrize(("by", "verdict"), [(0.0, "pass"), (2.0, "pass"), (30.0, "fail"), (-1.8, "fail")])
def test_the_time_out_bounds_the_wait(by: float, verdict: str):
    """Two seconds between tries are allowed for, half a minute is not, and neither is giving up at once."""
    evidence = stretched(recordings.embedded(WAITING), by)
    finding = wait_for_master.gives_up_in_time(evidence, evidence.given)
    assert finding.verdict == verdict, finding.observed
    assert finding.numbers[0].bound == 2.0


def test_a_worker_that_was_let_go_had_nothing_to_give_up():
    """Recorded: the master ran, the init container ended with 0."""
    finding = wait_for_master.gives_up_in_time(recordings.stream(E5), {})
    assert finding.verdict == "inconclusive"
    assert "went on (exit 0)" in finding.observed


def test_a_log_that_was_not_read_leaves_open_whether_it_names_the_master():
    """Not read is not passed."""
    evidence = mutants.without(
        recordings.embedded(WAITING), lambda line: line.data.get("container") == wait_for_master.INIT
    )
    finding = wait_for_master.gives_up_in_time(evidence, evidence.given)
    assert finding.verdict == "inconclusive"
    assert "not read" in finding.observed
