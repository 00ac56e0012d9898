"""Small JobSets side by side that ask for no GPU: how they end, restart and begin, and the names of their pods.

Their pods are placed by Kubernetes' own scheduler, whatever the declared one is: what is judged is JobSet's controller.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from pytest_gpucluster.plain import names, workload_kinds
from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import job_ended, phase
from pytest_gpucluster.scenario.programs import image, payloads_of
from pytest_gpucluster.workload import GangSpec, Role, Volume

from .common import HOLD, LOGS, PAYLOAD, told
from .indexed import PROGRAM, patience_of, wait_first

Manifest = dict[str, Any]

KINDS = ("Pod", names.JOBSET, names.BATCH_JOB, "Service", "Event", "ConfigMap", "Node")
JOBSETS = ("create,delete jobsets.jobset.x-k8s.io",)

RESTARTS = 1
"""maxRestarts of the sets that fail: attempts in all are one more."""
WORKS = 0.3
"""Seconds that a member works before it ends."""
SLOW = 1.2
"""Seconds that a member of the earlier replicated Job takes to become ready, or to complete."""

ATTEMPT = "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"
"""Where a member reads which attempt it is of."""


def exits(code: int, seconds: float = WORKS) -> tuple[str, ...]:
    """Return a program that works for a while and ends with a code."""
    return ("sh", "-c", f"sleep {seconds}; exit {code}")


FAILS_ONCE = ("sh", "-c", f'sleep {WORKS}; [ "$ATTEMPT" = 0 ] && exit 1; exit 0')
READY = "/state/ready"
"""File by which a member of the earlier replicated Job says that it is ready; its volume is the pod's own."""
STATE = Volume("state", {"emptyDir": {}}, "/state")
READY_LATE = ("sh", "-c", f"sleep {SLOW}; touch {READY}; trap 'exit 0' TERM; sleep 3600 & wait")


def _any_of(set_: Manifest) -> None:
    set_["successPolicy"] = {"operator": "Any", "targetReplicatedJobs": ["first"]}


def _all_of(set_: Manifest) -> None:
    set_["successPolicy"] = {"operator": "All", "targetReplicatedJobs": ["first", "second"]}


def _bounded(set_: Manifest) -> None:
    set_["failurePolicy"] = {"maxRestarts": RESTARTS}


def _fails_at_once(set_: Manifest) -> None:
    rule = {"action": "FailJobSet", "targetReplicatedJobs": ["first"]}
    set_["failurePolicy"] = {"maxRestarts": RESTARTS, "rules": [rule]}


def _recovers(set_: Manifest) -> None:
    _bounded(set_)
    _any_of(set_)


def _in_order(set_: Manifest) -> None:
    set_["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    _becomes_ready_late(set_)


def _after_ready(set_: Manifest) -> None:
    set_["replicatedJobs"][1]["dependsOn"] = [{"name": "first", "status": "Ready"}]
    _becomes_ready_late(set_)


def _after_complete(set_: Manifest) -> None:
    set_["replicatedJobs"][1]["dependsOn"] = [{"name": "first", "status": "Complete"}]


def _becomes_ready_late(set_: Manifest) -> None:
    """Give the first replicated Job a probe that its program answers late, and let the end of the second be the end."""
    pod = set_["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["readinessProbe"] = {
        "exec": {"command": ["test", "-e", READY]},
        "periodSeconds": 1,
    }
    set_["successPolicy"] = {"operator": "Any", "targetReplicatedJobs": ["second"]}


@dataclasses.dataclass(frozen=True)
class Small:
    """One JobSet.

    Attributes:
        members: name of a replicated Job of one Job -> number of members, what each runs.
        change: what is asked for, put into the spec of a JobSet.
    """

    members: dict[str, tuple[int, tuple[str, ...]]]
    change: Callable[[Manifest], None]


ENDS: dict[str, Small] = {
    "any-of": Small({"first": (1, exits(0)), "second": (2, HOLD)}, _any_of),
    "all-of": Small({"first": (1, exits(0)), "second": (1, exits(0, SLOW)), "third": (1, HOLD)}, _all_of),
    "bounded": Small({"first": (1, exits(1)), "second": (1, HOLD)}, _bounded),
    "recovers": Small({"first": (1, FAILS_ONCE), "second": (1, HOLD)}, _recovers),
    "fails-at-once": Small({"first": (1, exits(1)), "second": (1, HOLD)}, _fails_at_once),
}
"""Role of a JobSet -> what it is, of those whose end is judged."""

ORDERED: dict[str, Small] = {
    "in-order": Small({"first": (2, READY_LATE), "second": (1, exits(0))}, _in_order),
    "after-ready": Small({"first": (2, READY_LATE), "second": (1, exits(0))}, _after_ready),
    "after-complete": Small({"first": (2, exits(0, SLOW)), "second": (1, exits(0))}, _after_complete),
}
"""The same of those whose beginning is judged."""


def written(stage: Stage, name: str, small: Small) -> Manifest:
    """Return the manifest of a JobSet, its pods placed by Kubernetes' own scheduler."""
    roles = tuple(
        Role(called, count, command, field_env={"ATTEMPT": ATTEMPT})
        for called, (count, command) in small.members.items()
    )
    spec = GangSpec(name, roles=roles, image=image(stage, "python"), volumes=(STATE,))
    manifest: Manifest = stage.speaks(stage.contrast.name, workload_kinds.JOBSET).write(spec)
    small.change(manifest["spec"])
    return manifest


def at_rest(handles: Sequence[Handle]) -> Callable[[Live], bool]:
    """Report whether no pod of any of these sets lives."""
    return lambda live: (
        not any(phase(pod) in ("Pending", "Running") for handle in handles for pod in live.pods_of(handle))
    )


def endless(handle: Handle) -> Callable[[Live], str]:
    """Tell that a JobSet has restarted more often than it may; waiting for its end is then in vain."""

    def check(live: Live) -> str:
        status = (live.get(handle.kind, handle.name) or {}).get("status") or {}
        count = int(status.get("restarts") or 0)
        return f"restarts is {count}, maxRestarts {RESTARTS}" if count > RESTARTS else ""

    return check


def _run(stage: Stage, sets: dict[str, Small]) -> None:
    """Submit all, wait for the end of each, and watch for a window that nothing moves afterwards."""
    told(stage)
    handles = {
        role: stage.submit(written(stage, f"{stage.name}-{role}", small), role=role)
        for role, small in sets.items()
    }
    taken = [handle for handle in handles.values() if handle.ok]
    for handle in taken:
        if not stage.wait(f"{handle.name} has pods", begun(handle), budget="enqueue"):
            return  # nobody makes anything of JobSets: the others would wait in vain too
    for handle in taken:
        stage.wait(f"{handle.name} has ended", job_ended(handle), budget="run", unless=endless(handle))
    # One wait for all: what one leaves running, others do too.
    stage.wait(
        f"nothing is left running of {' '.join(handle.name for handle in taken)}",
        at_rest(taken),
        budget="finish",
    )
    stage.window("after the ends", last=True)


def begun(handle: Handle) -> Callable[[Live], bool]:
    """Report whether a JobSet has pods, or had them."""
    ended = job_ended(handle)
    return lambda live: bool(live.pods_of(handle)) or ended(live)


jobset_ends = Scenario(
    name="jobset-ends",
    summary="five small JobSets that succeed by any or all of their Jobs, fail, restart, or recover",
    run=lambda stage: _run(stage, ENDS),
    needs=Needs(seconds=5, gang=False, workload=workload_kinds.JOBSET, permissions=JOBSETS),
    kinds=KINDS,
    rests=(names.JOBSET, names.BATCH_JOB),
)

jobset_order = Scenario(
    name="jobset-order",
    summary="three small JobSets whose later Job waits until the earlier one is ready or complete",
    run=lambda stage: _run(stage, ORDERED),
    needs=Needs(seconds=6, gang=False, workload=workload_kinds.JOBSET, permissions=JOBSETS),
    kinds=KINDS,
    rests=(names.JOBSET, names.BATCH_JOB),
)

SUBDOMAIN = "net"
"""Ending of the name of the Service that the named set asks for."""
NAMED = {"leader": (1, 1), "worker": (2, 2)}
"""Name of a replicated Job -> its Jobs, members of each."""

SAY_AND_HOLD = ("sh", "-c", f"python /workspace/{PROGRAM} say; trap 'exit 0' TERM; sleep 3600 & wait")


def member_names(jobset: str, subdomain: str) -> list[str]:
    """Return the names that the members of the named set must have."""
    return [
        f"{jobset}-{role}-{job}-{index}.{subdomain}"
        for role, (jobs, members) in NAMED.items()
        for job in range(jobs)
        for index in range(members)
    ]


def run_named(stage: Stage) -> None:
    """Let every member of a JobSet of five pods look up the names of all, before it is ready."""
    within = patience_of(stage, 0.5)
    told(stage, within=within, members=sum(jobs * members for jobs, members in NAMED.values()))
    payload, python = payloads_of(stage, PROGRAM), image(stage, "python")
    subdomain = f"{stage.name}-{SUBDOMAIN}"
    wanted = member_names(stage.name, subdomain)
    # They hold their names until all have looked: the name of a pod that has ended is gone.
    roles = tuple(Role(role, members, SAY_AND_HOLD) for role, (_, members) in NAMED.items())
    spec = GangSpec(stage.name, roles=roles, image=python, payload=payload, subdomain=subdomain)
    manifest = stage.speaks(stage.contrast.name, workload_kinds.JOBSET).write(spec)
    for replicated, (jobs, _) in zip(manifest["spec"]["replicatedJobs"], NAMED.values(), strict=True):
        replicated["replicas"] = jobs
        wait_first(replicated["template"]["spec"]["template"]["spec"], python, wanted, within)
    named = stage.submit(manifest, role="subject")
    if named.ok and stage.wait(f"{named.name} has pods", begun(named), budget="enqueue"):
        stage.follow(named)
        stage.wait(f"all members of {named.name} found the names of all", _found(stage, named), budget="run")
        stage.delete(named)


def _found(stage: Stage, handle: Handle) -> Callable[[Live], bool]:
    """Report whether all members said who they are after their wait, or the set has ended since one gave up."""
    ended, members = job_ended(handle), sum(jobs * members for jobs, members in NAMED.values())
    return lambda live: len(stage.said("member")) >= members or ended(live)


jobset_names = Scenario(
    name="jobset-names",
    summary="a JobSet of three Jobs and five pods, of which each looks up the names of all",
    run=run_named,
    needs=Needs(seconds=4, gang=False, workload=workload_kinds.JOBSET, permissions=JOBSETS + PAYLOAD + LOGS),
    kinds=KINDS,
    rests=(names.JOBSET, names.BATCH_JOB, "Service"),
)
