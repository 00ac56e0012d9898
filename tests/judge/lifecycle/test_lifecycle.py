"""Ends, restarts and removals: recorded streams changed on purpose, and situations made up after reports."""

import copy
from typing import Any

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence, Span
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.lifecycle import (
    container_restarts,
    finished_members,
    min_success_and_ttl,
    phases,
    policies,
    restarts,
    suspend_resume,
)
from pytest_gpucluster.requirement import Finding
from tests import recordings

F2, F4, F5, F7 = "f2-podevicted-restartjob", "f4-abort-resume", "f5-ttl", "f7-minsuccess"
F9, F11 = "f9-podfailed-abort", "f11-finished-member-deleted"
VC = "Job.batch.volcano.sh"


def note(t: float, word: str, **fields: Any) -> dict[str, Any]:
    """Return a note of the driver."""
    return {"t": t, "type": "NOTE", "note": word, **fields}


def uid(name: str, evidence: Evidence | None = None) -> str:
    """Return the uid of the only Job of a stream."""
    (found,) = {line.uid for line in (evidence or recordings.stream(name)).of_kind(VC)}
    return found


def changed(name: str, change: Any, kind: str = "Pod") -> Evidence:
    """Return a stream in which each object of a kind was changed in a copy."""
    return mutants.each(recordings.stream(name), lambda line: line.kind == kind, change)


def job(t: float, phase: str = "", kind: str = "MODIFIED", **more: Any) -> dict[str, Any]:
    """Return a watch line of a made-up Job of one master and one worker."""
    status = {"state": {"phase": phase}, **more.pop("status", {})} if phase else {}
    tasks = [{"name": "master", "replicas": 1}, {"name": "worker", "replicas": 1}]
    obj = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "run", "namespace": "n", "uid": "u-job"},
        "spec": {"minAvailable": 2, "tasks": tasks, "maxRetry": 3, **more},
        **({"status": status} if status else {}),
    }
    return {"t": t, "type": kind, "kind": VC, "object": obj}


def pod(t: float, task: str, phase: str, kind: str = "MODIFIED", **more: Any) -> dict[str, Any]:
    """Return a watch line of one of its pods."""
    meta = {
        "name": f"run-{task}-0", "namespace": "n", "uid": more.pop("uid", f"u-{task}"),
        "labels": {"volcano.sh/job-name": "run", "volcano.sh/task-spec": task},
        "ownerReferences": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "run", "uid": "u-job",
                             "controller": True}], **more.pop("meta", {}),
    }  # fmt: skip
    ended = [
        {"name": name, "state": {"terminated": {"exitCode": code}}} for name, code in more.pop("codes", ())
    ]
    status = {"phase": phase, **({"containerStatuses": ended} if ended else {}), **more.pop("status", {})}
    spec = {
        "nodeName": f"gpu-{task}",
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main"}],
        **more,
    }
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}
    return {"t": t, "type": kind, "kind": "Pod", "object": obj}


def told(finding: Finding) -> str:
    """Return all words of a finding."""
    causes = " ".join(cause.text + cause.fix for cause in finding.causes)
    return " ".join([finding.observed, *finding.where, causes])


# -- a member is lost ------------------------------------------------------------------------------------------------


def test_the_mark_of_newer_versions_is_not_needed():
    """An older Volcano does not mark the pods that it removes; who was lost first is seen all the same."""
    plain = changed(F2, lambda obj: obj["metadata"].get("annotations", {}).clear())
    finding = restarts.evicted_restarts_once(plain, {})
    assert finding.verdict == "pass", finding.observed
    assert "evict-worker-1" in finding.observed


def test_a_policy_that_sets_itself_off_again_is_found():
    """A restart of a task that its own deletions set off again counts more restarts than losses."""

    def task(obj: dict[str, Any]) -> None:
        obj["spec"]["policies"] = [{"event": "PodEvicted", "action": "RestartTask"}]
        if obj.get("status", {}).get("retryCount"):
            obj["status"]["retryCount"] = 3

    finding = restarts.evicted_restarts_once(changed(F2, task, VC), {})
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "retryCount is 3 after 1 loss" in finding.observed
    assert "controller-out-of-sync" in told(finding)


def test_a_pod_that_its_kubelet_evicts_is_failed_and_not_gone():
    """Node pressure is no PodEvicted: the pod object stays."""
    policy = [{"event": "PodEvicted", "action": "RestartJob"}]
    lines = [
        job(0, kind="ADDED", policies=policy), job(1, "Running", policies=policy),
        pod(1, "worker", "Running", "ADDED"), pod(2, "worker", "Failed", status={"reason": "Evicted"}), note(30, "end"),
    ]  # fmt: skip
    finding = restarts.evicted_restarts_once(recordings.evidence_of(lines), {})
    assert finding.verdict == "inconclusive"
    assert "run-worker-0 on gpu-worker" in told(finding)
    assert "PodFailed" in told(finding)


def test_what_we_removed_is_known_from_our_notes():
    """Where we noted whom we removed, nobody else counts as lost."""
    other = recordings.added(F2, [note(4.5, "deleted-by-us", kind="Pod", name="x", uid="not-of-this-job")])
    assert restarts.evicted_restarts_once(other, {}).verdict == "inconclusive"


@pytest.mark.parametrize(("held", "code"), [(True, 201), (False, 403), (False, 429)])
def test_a_refused_eviction_is_a_prerequisite(held: bool, code: int):
    """Permission and disruption budgets decide whether an eviction was tried at all."""
    line = {"t": 1.0, "type": "RESPONSE", "case": "evict", "request": "evict Pod/x", "code": code}
    state = presuppositions.eviction_permitted(recordings.evidence_of([line]), {})
    assert state.held is held
    assert presuppositions.commands_permitted(recordings.evidence_of([line]), {}).held is True


# -- attempts and failures -------------------------------------------------------------------------------------------


def test_a_failed_job_may_keep_its_failed_pod():
    """The failed pod of the last attempt stays for reading; that is no leak."""
    finding = restarts.attempts_bounded(recordings.stream("f1-podfailed-restartjob-maxretry"), {})
    assert finding.verdict == "pass"
    (number,) = finding.numbers
    assert (number.value, number.bound, number.origin) == (3, 3, "spec.maxRetry")


def test_an_aborted_job_that_keeps_a_worker_fails():
    """The phase says Aborted, the pods say that one runs on: the pods decide."""
    policy = [{"event": "PodFailed", "action": "AbortJob"}]
    lines = [
        job(0, kind="ADDED", policies=policy), job(1, "Running", policies=policy),
        pod(1, "master", "Running", "ADDED"), pod(1, "worker", "Running", "ADDED"),
        pod(2, "master", "Failed", codes=[("main", 1)]), job(3, "Aborting", policies=policy),
        job(4, "Aborted", policies=policy), note(60, "end"),
    ]  # fmt: skip
    finding = policies.act_as_documented(recordings.evidence_of(lines), {})
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "Pod/run-worker-0 on gpu-worker" in finding.where


def test_the_policy_of_the_task_is_tried_first():
    """A task's policy for an exit code wins over the Job's for PodFailed, and other ends are then wrong."""

    def both(obj: dict[str, Any]) -> None:
        for task in obj["spec"]["tasks"]:
            task["policies"] = [{"exitCode": 1, "action": "TerminateJob"}]

    finding = policies.act_as_documented(changed(F9, both, VC), {})
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "exit code 1 -> TerminateJob; but the Job became Aborting" in finding.observed


def test_only_the_first_container_is_asked_for_its_exit_code():
    """A second container's exit code sets nothing off; the finding says which and why."""
    policy = [{"exitCode": 3, "action": "TerminateJob"}]
    failed = pod(2, "master", "Failed", codes=[("proxy", 0), ("train", 3)])
    lines = [
        job(0, kind="ADDED", policies=policy),
        job(1, "Running", policies=policy),
        failed,
        note(30, "end"),
    ]
    finding = policies.act_as_documented(recordings.evidence_of(lines), {})
    assert finding.verdict == "inconclusive"
    assert "train of Pod/run-master-0" in told(finding)
    assert "first container" in told(finding)


def test_a_policy_that_waits_is_not_hurried():
    """A policy with a timeout is not judged as if it had none."""

    def later(obj: dict[str, Any]) -> None:
        for policy in obj["spec"]["policies"]:
            policy["timeout"] = "10m"

    assert policies.act_as_documented(changed(F9, later, VC), {}).verdict == "inconclusive"


def test_restarts_in_place_are_no_control_when_something_acted():
    """If the Job was aborted after all, the documented failure was not shown."""
    policy = [{"event": "PodFailed", "action": "AbortJob"}]
    again = {"name": "main", "restartCount": 2, "lastState": {"terminated": {"exitCode": 1}}}
    base = [
        job(0, kind="ADDED", policies=policy), job(1, "Running", policies=policy),
        pod(1, "master", "Running", "ADDED", restartPolicy="OnFailure"),
        pod(2, "master", "Running", restartPolicy="OnFailure", status={"containerStatuses": [again]}),
    ]  # fmt: skip
    shown = container_restarts.restarts_in_place_control(recordings.evidence_of([*base, note(30, "end")]), {})
    assert shown.verdict == "pass"
    assert "2 times, last exit 1" in shown.observed
    short = container_restarts.restarts_in_place_control(recordings.evidence_of([*base, note(3, "end")]), {})
    assert short.verdict == "inconclusive"
    acted = [*base, job(5, "Aborting", policies=policy), note(30, "end")]
    assert container_restarts.restarts_in_place_control(
        recordings.evidence_of(acted), {}
    ).observed.startswith("not shown")


# -- ends by numbers -------------------------------------------------------------------------------------------------


def test_a_job_that_we_delete_shows_nothing_about_its_time_to_live():
    """Our own deletion is no removal after the time to live."""
    ours = recordings.added(F5, [note(5.6, "deleted-by-us", kind=VC, name="ttl", uid=uid(F5))])
    assert min_success_and_ttl.removed_after_ttl(ours, {}).verdict == "inconclusive"


def test_removal_at_once_is_too_early():
    """A Job that goes as soon as it has finished did not live its time; a second less is rounding."""

    def longer(obj: dict[str, Any]) -> None:
        obj["spec"]["ttlSecondsAfterFinished"] = 60

    finding = min_success_and_ttl.removed_after_ttl(changed(F5, longer, VC), {})
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "too early" in finding.observed


def test_an_aborted_job_has_no_time_to_live():
    """Volcano never removes an Aborted Job: said with its cause, not called a failure."""
    spec = {"ttlSecondsAfterFinished": 60}
    lines = [job(0, kind="ADDED", **spec), job(2, "Aborted", **spec), note(600, "end")]
    finding = min_success_and_ttl.removed_after_ttl(recordings.evidence_of(lines), {})
    assert finding.verdict == "inconclusive"
    assert "never an Aborted one" in told(finding)


def test_successes_are_counted_by_pods():
    """The Job's own numbers vanish after its end; the pods still tell."""

    def without_numbers(obj: dict[str, Any]) -> None:
        for field in ("succeeded", "failed", "running", "taskStatusCount"):
            obj.get("status", {}).pop(field, None)

    assert min_success_and_ttl.min_success_decides(changed(F7, without_numbers, VC), {}).verdict == "pass"


def test_enough_successes_without_an_end_fail_when_the_time_is_over():
    """A Job that goes on although enough members have succeeded fails once it was due."""
    spec = {"minSuccess": 1}
    lines = [
        job(0, kind="ADDED", **spec), job(1, "Running", **spec), pod(1, "master", "Running", "ADDED"),
        pod(1, "worker", "Running", "ADDED"), pod(2, "master", "Succeeded", codes=[("main", 0)]),
    ]  # fmt: skip
    early = min_success_and_ttl.min_success_decides(recordings.evidence_of([*lines, note(4, "end")]), {})
    late = min_success_and_ttl.min_success_decides(recordings.evidence_of([*lines, note(60, "end")]), {})
    assert (early.verdict, late.verdict) == ("inconclusive", "fail")


# -- phases ----------------------------------------------------------------------------------------------------------

PATHS = [
    (("Pending", "Running", "Pending", "Running", "Completed"), "pass"),
    (("Pending", "Completing", "Completed"), "pass"),
    (("Pending", "Completed"), "fail"),
    (("Pending", "Running", "Completed", "Running"), "fail"),
    (("Pending", "Running", "Aborting", "Terminated"), "fail"),
    (("Pending", "Running", "Failed"), "inconclusive"),
    (("Running", "Completed"), "inconclusive"),
]


@pytest.mark.parametrize(("path", "verdict"), PATHS)
def test_paths(path: tuple[str, ...], verdict: str):
    """Documented paths pass, others fail; one that was not seen from its beginning is left open."""
    first = [job(0, kind="ADDED")] if path[0] == "Pending" else []
    lines = [*first, *(job(n + 1, name) for n, name in enumerate(path))]
    finding = phases.documented_path(recordings.evidence_of(lines), {})
    assert finding.verdict == verdict, finding.observed
    assert " -> ".join(path) in finding.observed


def test_a_gap_may_hide_a_phase():
    """What looks undocumented over a gap of the watch is left open."""
    lines = [job(0, kind="ADDED"), job(1, "Pending"), job(5, "Completed")]
    gap = (Span(VC, 0, 2, "test"), Span(VC, 4, 9, "test"))
    assert phases.documented_path(recordings.evidence_of(lines, spans=gap), {}).verdict == "inconclusive"
    polled = recordings.evidence_of(lines, header={"clock": "object"})
    assert phases.documented_path(polled, {}).verdict == "inconclusive"


# -- suspended -------------------------------------------------------------------------------------------------------


def test_a_pod_that_is_made_while_suspended_fails():
    """Aborted says nothing if pods are made meanwhile."""
    first = next(
        line
        for line in recordings.raw(F4)
        if line["type"] == "ADDED" and line["object"]["metadata"]["name"] == "susp-worker-0"
    )
    early = copy.deepcopy(first)
    early["t"] = 4.5
    early["object"]["metadata"]["uid"] = "made-early"
    finding = suspend_resume.suspend_and_resume(recordings.added(F4, [early]), {})
    assert finding.verdict == "fail"
    assert "susp-worker-0" in finding.observed


def test_a_suspend_that_nobody_carries_out_fails():
    """A command that is taken and not carried out fails when the driver waited for it in vain."""
    lines = [
        job(0, kind="ADDED"), job(1, "Running"), pod(1, "worker", "Running", "ADDED"),
        note(2, "commanded", action="AbortJob", kind=VC, name="run", uid="u-job"),
    ]  # fmt: skip
    waiting = recordings.evidence_of([*lines, note(3, "end")])
    assert suspend_resume.suspend_and_resume(waiting, {}).verdict == "inconclusive"
    other = note(6, "timed-out", what="runner is suspended", seconds=4)
    assert (
        suspend_resume.suspend_and_resume(recordings.evidence_of([*lines, other]), {}).verdict
        == "inconclusive"
    )
    vain = note(6, "timed-out", what="run is suspended", seconds=4)
    finding = suspend_resume.suspend_and_resume(recordings.evidence_of([*lines, vain]), {})
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "run-worker-0" in finding.observed


def test_a_resume_that_uses_up_the_attempts_is_explained():
    """Each resume counts as an attempt: the last one ends the Job, which is documented and no new start."""
    lines = [
        job(0, kind="ADDED"), job(1, "Running"), pod(1, "worker", "Running", "ADDED"),
        note(2, "commanded", action="AbortJob", kind=VC, name="run", uid="u-job"),
        pod(3, "worker", "Running", "DELETED"), job(4, "Aborted", status={"retryCount": 2}),
        note(6, "commanded", action="ResumeJob", kind=VC, name="run", uid="u-job"),
        job(7, "Restarting", status={"retryCount": 3}), job(8, "Failed", status={"retryCount": 3}), note(60, "end"),
    ]  # fmt: skip
    finding = suspend_resume.suspend_and_resume(recordings.evidence_of(lines), {})
    assert finding.verdict == "inconclusive"
    assert "attempt 3 of 3" in finding.observed
    assert "high maxRetry" in told(finding)


# -- finished members ------------------------------------------------------------------------------------------------


def test_a_batch_job_decides_and_volcano_is_reported():
    """Beside a batch Job that keeps its word, Volcano's second run is told with its cause and does not decide."""
    evidence = recordings.embedded("removals")
    finding = finished_members.not_run_again(evidence, evidence.given)
    assert finding.verdict == "pass"
    assert "reported: removals-volcano-second-0" in finding.observed
    assert "does not remember" in told(finding)
    assert [(n.value, n.bound) for n in finding.numbers] == [(1, 1), (2, None)]


def test_volcano_alone_fails():
    """Where nothing but a Volcano Job is judged, that it runs a finished member again is a fail with its cause."""
    finding = finished_members.not_run_again(recordings.stream(F11), {})
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "batch Job" in told(finding)


def test_a_finished_member_has_to_stay_away_for_a_window():
    """A member whose pod went just before the end may still be made again."""
    lines = [
        job(0, kind="ADDED"), job(1, "Running"), pod(1, "worker", "Running", "ADDED"),
        pod(1, "master", "Running", "ADDED"), pod(2, "master", "Succeeded"), pod(3, "master", "Succeeded", "DELETED"),
    ]  # fmt: skip
    for end, verdict in ((4, "inconclusive"), (30, "pass")):
        finding = finished_members.not_run_again(recordings.evidence_of([*lines, note(end, "end")]), {})
        assert finding.verdict == verdict, finding.observed


def test_finished_members_go_with_a_restart_of_the_job():
    """What the controller removes itself, to restart the Job, is not a finished member taken away."""
    assert finished_members.not_run_again(recordings.stream(F2), {}).verdict == "inconclusive"
