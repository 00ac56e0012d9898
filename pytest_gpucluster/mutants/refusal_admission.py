"""Departures of refusals at admission: another gate, another reason, no control, and what was made all the same."""

import dataclasses
from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.api_answers import CONTROL
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import pods
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain import names

OURS, FOREIGN = "validatejob.volcano.sh", "validate.kyverno.svc-fail"
DENIED = 'admission webhook "{}" denied the request: {}'


def _refused_by_volcano(line: Line) -> bool:
    return OURS in fields.text(line.data, "status", "message") and bool(line.data.get("case"))


def _control(line: Line) -> bool:
    return str(line.data.get("case") or "").startswith(CONTROL)


def _saying(webhook: str, why: str, code: int) -> Callable[[dict[str, Any]], None]:
    def say(data: dict[str, Any]) -> None:
        data.pop("object", None)
        text = DENIED.format(webhook, why)
        data.update(code=code, status={"kind": "Status", "status": "Failure", "code": code, "message": text})

    return say


def foreign_gate(evidence: Evidence) -> Evidence:
    """Let a policy engine refuse what Volcano's admission refused, for a reason of its own."""
    why = "resource Job was blocked due to the following policies: disallow-latest-tag"
    return base.responses(evidence, _refused_by_volcano, _saying(FOREIGN, why, 400))


def other_reason(evidence: Evidence) -> Evidence:
    """Let Volcano's admission refuse for something that is not what is wrong with the Job."""
    why = "spec.task[0].template.spec.containers[0].image: Required value;"
    return base.responses(evidence, _refused_by_volcano, _saying(OURS, why, 400))


def control_refused(evidence: Evidence) -> Evidence:
    """Let the Job be refused with the one wrong thing right, too: its queue does not exist."""
    why = 'unable to find job queue: queue.scheduling.volcano.sh "nosuch" not found;'
    return base.responses(evidence, _control, _saying(OURS, why, 400))


def control_of_another(evidence: Evidence) -> Evidence:
    """Let the control have been another object than the one that was refused."""
    return base.responses(evidence, _control, lambda data: data.update(request=f"{data['request']}-another"))


def made_all_the_same(evidence: Evidence) -> Evidence:
    """Let a pod exist of a Job that was refused, without an owner that anybody knows."""
    answer = next((line for line in evidence.responses() if _refused_by_volcano(line)), None)
    end = next(iter(evidence.notes("window-end")), None)
    if answer is None or end is None:
        return evidence
    job = str(answer.data.get("request")).rpartition("/")[2]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job}-worker-0", "namespace": "x", "uid": "made-all-the-same",
            "annotations": {"scheduling.k8s.io/group-name": f"{job}-0d7a8f0e-4f5f-4f0e-9a54-6f6a2f1b9c11"},
        },
        "spec": {"schedulerName": "volcano", "containers": []},
        "status": {"phase": "Pending"},
    }  # fmt: skip
    made = dataclasses.replace(answer, t=answer.t + 0.01, type="ADDED", kind="Pod", object=pod, data={})
    gone = dataclasses.replace(made, t=answer.t + 0.02, type="DELETED")
    return base.with_lines(evidence, (*evidence.lines, made, gone))


def unwatched(evidence: Evidence) -> Evidence:
    """Let pods not have been watched while the refused Jobs could have made some."""
    if not any(_refused_by_volcano(line) for line in evidence.responses()):
        return evidence
    return Evidence(
        evidence.lines, header=evidence.header, spans=[span for span in evidence.spans if span.kind != "Pod"]
    )


def _starting(evidence: Evidence, chosen: Callable[[pods.PodStory], bool]) -> Evidence:
    """Let the containers of chosen pods never start: their image cannot be pulled."""
    uids = {pod.uid for pod in pods.pods(evidence) if chosen(pod)}

    def stuck(obj: dict[str, Any]) -> None:
        state = {"ready": False, "restartCount": 0, "state": {"waiting": {"reason": "ErrImagePull"}}}
        waiting = [{"name": one.get("name"), **state} for one in fields.items(obj, "spec", "containers")]
        obj.setdefault("status", {}).update(phase="Pending", containerStatuses=waiting)

    bound = [
        line for line in evidence.lines if line.uid in uids and line.object.get("spec", {}).get("nodeName")
    ]
    return base.each(evidence, lambda line: line in bound, stuck) if bound else evidence


def held_by_a_stopped_queue(evidence: Evidence) -> Evidence:
    """Let Kueue hold a Job because its ClusterQueue is stopped, not because its LocalQueue is unknown."""

    def say(obj: dict[str, Any]) -> None:
        for condition in obj.get("status", {}).get("conditions") or []:
            if "LocalQueue" in str(condition.get("message")):
                condition["message"] = "ClusterQueue team is stopped"

    return base.each(evidence, lambda line: line.kind == "Workload", say)


def controls_never_run(evidence: Evidence) -> Evidence:
    """Let every control be placed and never run."""
    return _starting(evidence, lambda pod: str(pod.labels.get(names.LABEL_ROLE)) in {"control", "neighbour"})


def winner_never_runs(evidence: Evidence) -> Evidence:
    """Let the first of two gangs that want the same room be placed and never run."""
    first = min(
        (p for p in pods.pods(evidence) if p.bound is not None), key=lambda p: p.bound or 0.0, default=None
    )
    role = str(first.labels.get(names.LABEL_ROLE)) if first is not None else ""
    if role not in {"left", "right"}:
        return evidence
    return _starting(evidence, lambda pod: pod.labels.get(names.LABEL_ROLE) == role)


MUTANTS: base.Table = {
    "admission.foreign-gate": base.Mutant(
        "a policy engine refuses what Volcano's admission refused",
        foreign_gate,
        {"REF-003": "inconclusive", "REF-004": "inconclusive"},
    ),
    "admission.other-reason": base.Mutant(
        "a Job is refused for another reason",
        other_reason,
        {"REF-003": "inconclusive", "REF-004": "inconclusive"},
    ),
    "admission.control-refused": base.Mutant(
        "the Job is refused even after its mistake is corrected", control_refused, {"REF-003": "inconclusive"}
    ),
    "admission.control-of-another": base.Mutant(
        "the control is another object", control_of_another, {"REF-003": "inconclusive"}
    ),
    "admission.no-control": base.Mutant(
        "no control was tried", lambda evidence: base.without(evidence, _control), {"REF-003": "inconclusive"}
    ),
    "admission.made-all-the-same": base.Mutant(
        "a pod of a refused Job exists for a moment",
        made_all_the_same,
        {"REF-003": "fail", "REF-004": "fail"},
    ),
    "admission.pods-unwatched": base.Mutant(
        "pods were not watched while Jobs were refused",
        unwatched,
        {"REF-003": "inconclusive", "REF-004": "inconclusive"},
    ),
    "admission.queue-stopped": base.Mutant(
        "Kueue holds a Job because its queue is stopped", held_by_a_stopped_queue, {"KUE-008": "inconclusive"}
    ),
    "control.never-runs": base.Mutant(
        "controls are placed and never run",
        controls_never_run,
        {
            "REF-001": "environment",
            "REF-002": "environment",
            "REF-004": "inconclusive",
            "REF-005": "inconclusive",
            "REF-008": "inconclusive",
            **dict.fromkeys(("ELA-004", "ELA-007", "ELA-009"), "environment"),
        },
    ),
    "control.winner-never-runs": base.Mutant(
        "the winner of two gangs is placed and never runs",
        winner_never_runs,
        {"GANG-004": "inconclusive", "RDZV-005": "environment", "RDZV-006": "environment", "KUE-003": "fail"},
    ),
}
