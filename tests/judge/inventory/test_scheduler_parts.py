"""INV-001 and REF-008: whether a scheduler serves a name is seen at a pod; what a refused dry run says."""

import copy

import pytest

from pytest_gpucluster.judge import creating
from pytest_gpucluster.judge.inventory import scheduler_parts
from pytest_gpucluster.judge.refusal import no_scheduler
from pytest_gpucluster.report import decisions
from pytest_gpucluster.requirement import REGISTRY
from tests import recordings
from tests.defects import matrix

PASS, FAIL, NO, ENVIRONMENT = "pass", "fail", "inconclusive", "environment"
GIVEN = {"scheduler": "volcano", "queue": "default", "scheduler_period": 1.0, "window": 5.0, "min_member": 1}
JOB, GROUP, POD = "Job.batch.volcano.sh", "PodGroup", "Pod"
SPEC = {"schedulerName": "volcano", "minAvailable": 1, "tasks": [{"name": "default0", "replicas": 1}]}


def obj(kind, name, status=None, spec=None, owner=None):
    """Return an object; `owner` is the name of its Job."""
    api = {JOB: "batch.volcano.sh/v1alpha1", GROUP: "scheduling.volcano.sh/v1beta1"}.get(kind, "v1")
    meta = {"name": name, "uid": name, "namespace": "x"}
    if owner:
        meta["ownerReferences"] = [
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": owner,
                "uid": owner,
                "controller": True,
            }
        ]
    if kind == POD:
        meta |= {
            "annotations": {"scheduling.k8s.io/group-name": f"pg-{owner}"},
            "labels": {"volcano.sh/job-name": owner},
        }
    body = {"apiVersion": api, "kind": kind.partition(".")[0], "metadata": meta, "spec": spec or {}}
    return {**body, "status": status or {}}


def gang(name="probe", phase="Inqueue", scheduler="volcano", pods=1, t=1.0):
    """Return the lines of a Job whose PodGroup gets a phase and whose pods are made."""
    spec = {**SPEC, "schedulerName": scheduler, "minAvailable": max(pods, 1)}
    group = obj(GROUP, f"pg-{name}", spec={"minMember": max(pods, 1), "queue": "default"}, owner=name)
    lines = [(t, "ADDED", JOB, obj(JOB, name, spec=spec)), (t + 0.1, "ADDED", GROUP, group)]
    if phase:
        lines.append((t + 0.3, "MODIFIED", GROUP, {**group, "status": {"phase": phase}}))
    containers = [{"name": "c", "resources": {}}]
    for n in range(pods):
        pod = obj(
            POD,
            f"{name}-{n}",
            {"phase": "Pending"},
            {"schedulerName": scheduler, "containers": containers},
            name,
        )
        lines.append((t + 0.5, "ADDED", POD, pod))
    return [{"t": t, "type": change, "kind": kind, "object": body} for t, change, kind, body in lines]


def event(t, kind, name, reason, by):
    """Return the line of an event of a scheduler."""
    about = {"kind": kind, "name": name, "uid": name, "namespace": "x"}
    body = obj("Event", f"e{t}") | {
        "involvedObject": about, "reason": reason, "type": "Warning", "message": "m", "source": {"component": by},
    }  # fmt: skip
    return {"t": t, "type": "ADDED", "kind": "Event", "object": body}


def changed(t, lines, name, **more):
    """Return the line in which an object of some lines changes: spec or status with more in it."""
    body = copy.deepcopy(
        next(line["object"] for line in reversed(lines) if line["object"]["metadata"]["name"] == name)
    )
    for part, values in more.items():
        body[part] = {**body[part], **values}
    return {"t": t, "type": "MODIFIED", "kind": POD, "object": body}


def answers(code=201, message=""):
    """Return the answers to the questions of the scenario."""
    told = [
        {"t": 0.1, "type": "RESPONSE", "case": f"api:{kind}", "code": 200, "request": f"look up {kind}"}
        for kind in (JOB, GROUP)
    ]
    dry = {
        "t": 0.2,
        "type": "RESPONSE",
        "case": "dry-run",
        "code": code,
        "request": f"create {JOB}/probe",
        "dry_run": True,
    }
    return [
        *told,
        {
            **dry,
            **({"object": {"spec": SPEC}} if code < 300 else {"status": {"code": code, "message": message}}),
        },
    ]


def evidence(*groups, end=60.0, roles=None):
    """Return evidence of lines, ended."""
    flat = [line for group in groups for line in (group if isinstance(group, list) else [group])]
    given = GIVEN if roles is None else {**GIVEN, "roles": roles}
    return recordings.evidence_of([*flat, {"t": end, "type": "NOTE", "note": "end"}], header={"given": given})


def looked(scheduler="volcano"):
    """Return ways in which a scheduler is seen to look at a pod."""
    lines = gang(scheduler=scheduler)
    no = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}]
    return {
        "bound": changed(2.0, lines, "probe-0", spec={"nodeName": "n1"}),
        "condition": changed(2.0, lines, "probe-0", status={"conditions": no}),
        "event": event(2.0, POD, "probe-0", "FailedScheduling", "volcano"),
    }


@pytest.mark.parametrize("how", ["bound", "condition", "event"])
def test_a_pod_that_is_looked_at(how):
    """A node, a condition or an event: somebody serves the name."""
    finding = scheduler_parts.scheduler_answers(evidence(answers(), gang(), looked()[how]))
    assert finding.verdict == PASS, finding.observed
    assert "a scheduler handled probe-0, which names volcano" in finding.observed


@pytest.mark.parametrize("by", ["volcano-v2", "volcano", "vc-scheduler", ""])
def test_a_phase_without_a_look_at_any_pod(by):
    """Whoever gave the phase: pods that nobody looks at are not served; who spoke of the PodGroup is named."""
    said = [event(1.4, GROUP, "pg-probe", "Unschedulable", by)] if by else []
    finding = scheduler_parts.scheduler_answers(evidence(answers(), gang(), said))
    assert (finding.verdict, finding.violation) == (FAIL, True)
    assert "no scheduler handled probe-0, which names schedulerName volcano" in finding.observed
    assert by in finding.observed
    assert "no running scheduler serves schedulerName 'volcano'" in finding.causes[0].text


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        # Gone before anybody could look at its pods: who speaks of the PodGroup tells his name.
        ([gang(), event(1.4, GROUP, "pg-probe", "Unschedulable", "volcano")], PASS),
        ([gang(), event(1.4, GROUP, "pg-probe", "Unschedulable", "volcano-v2")], NO),
        ([gang()], NO),
        # Held back at enqueue: there are no pods.
        ([gang(phase="Pending", pods=0), event(1.4, GROUP, "pg-probe", "Unschedulable", "volcano")], PASS),
        ([gang(phase="Pending", pods=0)], NO),
        # Pods that name Kubernetes' own scheduler show nothing of another.
        ([gang(scheduler="default-scheduler"), looked("default-scheduler")["bound"]], NO),
    ],
)
def test_evidence_that_is_too_short_for_a_pod(lines, verdict):
    """What was not seen at a pod is not assumed."""
    finding = scheduler_parts.scheduler_answers(evidence(answers(), *lines, end=2.5))
    assert finding.verdict == verdict, finding.observed


FORBIDDEN = "jobs.batch.volcano.sh is forbidden: User cannot create"
UNABLE = "the server is currently unable to handle the request"
OWN = 'admission webhook "validatejob.volcano.sh" denied the request: {}'


@pytest.mark.parametrize(
    ("code", "message", "verdict", "cause"),
    [
        (400, OWN.format("can only submit job to queue with state `Open`, queue `default` status is `Closing`;"),
         ENVIRONMENT, scheduler_parts.QUEUE),
        (400, OWN.format('unable to find job queue: queues.scheduling.volcano.sh "tran" not found'), ENVIRONMENT,
         scheduler_parts.QUEUE),
        (403, OWN.format("queue `default` status is `Closed`"), ENVIRONMENT, scheduler_parts.QUEUE),
        (400, OWN.format("job 'minAvailable' must be >= 0"), FAIL, scheduler_parts.ADMISSION),
        (400, 'admission webhook "deny.kyverno.svc" denied the request: image', NO, scheduler_parts.FOREIGN),
        (403, FORBIDDEN, NO, creating.why(403, FORBIDDEN)),
        (
            500,
            'Internal error: failed calling webhook "mutatejob.volcano.sh": no endpoints',
            FAIL,
            scheduler_parts.SILENT,
        ),
        (503, UNABLE, NO, creating.why(503, UNABLE)),
    ],
)  # fmt: skip
def test_who_refused_the_dry_run(code, message, verdict, cause):
    """A queue, a policy of the site, a permission: only the admission's own fault speaks against it."""
    assert matrix.rows()
    finding = decisions.decide(REGISTRY.get("INV-001"), evidence(answers(code, message)))
    assert finding.verdict == verdict, finding.observed
    assert finding.causes[0] == cause


def test_a_queue_that_is_closing_and_no_job():
    """Nothing was tried: the queue's own state says why."""
    closing = {
        "t": 0.0,
        "type": "ADDED",
        "kind": "Queue",
        "object": obj("Queue", "default", {"state": "Closing"}),
    }
    state = scheduler_parts.queue_takes_jobs(evidence(closing, answers()[:2]), GIVEN)
    assert state.held is False
    assert "Queue/default is Closing" in state.observed


def roles(**gangs):
    """Return roles that Jobs play."""
    return {role: [{"kind": JOB, "name": name, "uid": name}] for role, name in gangs.items()}


@pytest.mark.parametrize(
    ("control", "verdict", "said"),
    [
        # The control is not served either, though its PodGroup has a phase: who serves whom is not known.
        (
            [gang("control"), event(1.4, GROUP, "pg-control", "Unschedulable", "volcano-v2")],
            NO,
            "volcano-v2 reports about it",
        ),
        ([gang("control")], NO, "although its PodGroup got a phase"),
        # No scheduler runs at all.
        ([gang("control", phase="")], PASS, "no scheduler handles the PodGroup"),
        ([], NO, "no control was placed"),
    ],
)
def test_a_control_that_nobody_serves(control, verdict, said):
    """REF-008: that nobody serves one name is shown beside one that is served."""
    subject = gang("subject", scheduler="nobody", pods=2)
    seen = evidence(subject, *control, roles=roles(subject="subject", control="control"))
    finding = no_scheduler.not_served_is_no_refusal(seen, seen.given)
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed
