"""Jobs behind Kueue: quota of our own over slots of our own, Jobs submitted as users do, not suspended.

The sizes are recorded ones in small (Kueue v0.17.0: k1, k2, k3, k4b, k5 and k7): what is scarce is quota, which is no
larger than what the node has, except where the scenario is about just that.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import bound, phase
from pytest_gpucluster.scenario.programs import image
from pytest_gpucluster.workload import GangSpec, Role, has_ended

from .common import HOLD, told

GROUP = "kueue.x-k8s.io"

KINDS = ("Pod", "Job.batch", "Workload", "ClusterQueue", "LocalQueue", "ResourceFlavor", "Event", "Node")
"""The kinds that tell the story of a Job behind Kueue."""

JOBS = ("create,delete jobs.batch",)
QUOTA = (
    f"create,delete clusterqueues.{GROUP}", f"create,delete resourceflavors.{GROUP}", f"create localqueues.{GROUP}",
)  # fmt: skip
STOPS = (f"patch clusterqueues.{GROUP}",)

SLOTS = 4
"""Slots of the one node, and of the quota that is honest about it."""


def job(
    stage: Stage,
    role: str,
    members: int,
    slots: dict[str, int],
    *,
    queue: str,
    command: tuple[str, ...] = HOLD,
) -> Handle:
    """Submit an Indexed Job that names a LocalQueue, or none, as users do: not suspended."""
    spec = GangSpec(
        f"{stage.name}-{role}",
        roles=(Role("worker", members, command),),
        resources=dict(slots),
        image=image(stage, "python"),
    )
    dialect = dataclasses.replace(stage.speaks("kueue"), queue=queue) if queue else stage.contrast
    return stage.submit(dialect.write(spec), role=role)


def workload_of(live: Live, handle: Handle) -> dict[str, Any]:
    """Return the Workload that Kueue made for a Job, empty where there is none."""
    for one in live.objects("Workload", owner_uid=handle.uid):
        return one
    return {}


def status_of(workload: dict[str, Any], condition: str) -> str:
    """Return the status of a condition, "" where it is not there."""
    conditions = (workload.get("status") or {}).get("conditions") or []
    return next((str(c.get("status")) for c in conditions if c.get("type") == condition), "")


def looked_at(handle: Handle) -> Callable[[Live], bool]:
    """Report whether Kueue has said whether there is quota for a Job."""
    return lambda live: status_of(workload_of(live, handle), "QuotaReserved") != ""


def running(handle: Handle, count: int) -> Callable[[Live], bool]:
    """Report whether `count` pods of a Job run at once."""
    return lambda live: sum(phase(pod) == "Running" for pod in live.pods_of(handle)) >= count


def holds_quota(live: Live, handle: Handle) -> bool:
    """Report whether quota is held for a Job."""
    return bool((workload_of(live, handle).get("status") or {}).get("admission"))


def run_quota(stage: Stage) -> None:
    """Ask for one slot more than the quota; then let a Job that fits run beside it."""
    slots = stage.slots(nodes=1, per_node=SLOTS)
    told(stage, resource=slots.resource, currency="quota", total=slots.total)
    quota = stage.cluster_queue({slots.resource: SLOTS})
    if not quota.ok:
        return
    large = job(stage, "over-quota", SLOTS + 1, {slots.resource: 1}, queue=quota.queue)
    if large.ok:
        stage.wait("Kueue has looked at the Job above quota", looked_at(large), budget="enqueue")
    fits = job(stage, "subject", 2, {slots.resource: SLOTS // 2}, queue=quota.queue)
    if fits.ok and stage.wait("all pods of the Job that fits run", running(fits, 2), budget="start"):
        stage.window("over quota", last=True)


def run_teams(stage: Stage) -> None:
    """Let two teams ask for the whole quota at the same time; the first that gets it ends by itself."""
    slots = stage.slots(nodes=1, per_node=SLOTS)
    told(stage, resource=slots.resource, currency="quota", total=slots.total)
    quota = stage.cluster_queue({slots.resource: SLOTS}, teams=("left", "right"))
    if not quota.ok:
        return
    # Long enough for all members to be seen running at once.
    ends = ("sh", "-c", f"sleep {2 * stage.profile.window_length():g}")
    both = [
        job(stage, team, 2, {slots.resource: SLOTS // 2}, queue=quota.local[team], command=ends)
        for team in ("left", "right")
    ]
    if not all(one.ok for one in both):
        return
    ran: set[str] = set()

    def each_ran(live: Live) -> bool:
        # One whose pods start far apart may never be seen with both running: then its end says that it ran.
        ran.update(
            one.uid
            for one in both
            if running(one, 2)(live) or has_ended(one.kind, live.by_uid(one.uid) or {})
        )
        return len(ran) == len(both)

    stage.wait("each Job has run, one after the other", each_ran, budget="run")


def run_promised(stage: Stage) -> None:
    """Promise twice what there is, and ask for more than there is; where Kueue is told to evict that, wait for it."""
    slots = stage.slots(nodes=1, per_node=SLOTS)
    declared = stage.profile.kueue.wait_for_pods_ready if stage.profile.kueue else None
    told(stage, resource=slots.resource, currency="quota", total=slots.total)
    quota = stage.cluster_queue({slots.resource: 2 * SLOTS})
    if not quota.ok:
        return
    gang = job(stage, "subject", SLOTS + 1, {slots.resource: 1}, queue=quota.queue)
    if not gang.ok:
        return
    if stage.wait(
        "as many pods are bound as fit", lambda live: bound(live.pods_of(gang)) == SLOTS, budget="bind"
    ):
        stage.window("half placed", unless=lambda live: not bound(live.pods_of(gang)) and "it was evicted")
    if declared is None:
        return
    stage.wait("the gang is evicted", lambda live: given_back(live, gang), budget="finish", extra=declared)
    stage.wait("it is queued again", lambda live: queued_again(live, gang), budget="finish", extra=declared)


def given_back(live: Live, handle: Handle) -> bool:
    """Report whether a Job that was admitted holds no quota any more, and has no pods."""
    evicted = status_of(workload_of(live, handle), "Evicted") == "True"
    return evicted and not holds_quota(live, handle) and not live.pods_of(handle)


def queued_again(live: Live, handle: Handle) -> bool:
    """Report whether an evicted Job is on its way to its next admission, or has it."""
    workload = workload_of(live, handle)
    return status_of(workload, "Requeued") == "True" or holds_quota(live, handle)


def run_drained(stage: Stage) -> None:
    """Let a Job run, drain its queue, see its quota free and its pods gone, and let it run again."""
    slots = stage.slots(nodes=1, per_node=SLOTS)
    told(stage, resource=slots.resource, currency="quota", total=slots.total)
    quota = stage.cluster_queue({slots.resource: SLOTS})
    if not quota.ok:
        return
    gang = job(stage, "subject", 2, {slots.resource: SLOTS // 2}, queue=quota.queue)
    if not gang.ok or not stage.wait("all pods run", running(gang, 2), budget="start"):
        return
    if not stage.stop_queue(quota, "HoldAndDrain"):
        return
    if stage.wait(
        "the quota of the evicted Job is free", lambda live: given_back(live, gang), budget="finish"
    ):
        stage.stop_queue(quota, "None")
        stage.wait("all pods run again", running(gang, 2), budget="start")


def run_labels(stage: Stage) -> None:
    """Submit a Job without a queue label, and one that names a LocalQueue which is not there."""
    told(stage, currency="quota")
    bare = job(stage, "unlabelled", 2, {}, queue="")
    lost = job(stage, "unknown-queue", 2, {}, queue=f"{stage.name}-unknown")
    if bare.ok:
        stage.wait("the Job without a label runs", running(bare, 2), budget="start")
    if lost.ok and stage.wait("Kueue has looked at the other", looked_at(lost), budget="enqueue"):
        stage.window("unknown queue", last=True)


def _needs(*more: str, slots: bool = True, seconds: float = 2) -> Needs:
    return Needs(
        slot_nodes=1 if slots else 0,
        slots_per_node=SLOTS if slots else 0,
        seconds=seconds,
        gang=False,
        section="kueue",
        permissions=(*JOBS, *(QUOTA if slots else ()), *more),
    )


over_quota = Scenario(
    name="kueue-quota",
    summary="a Job of 5 slots in a queue with quota for 4, and one of 4 beside it",
    run=run_quota,
    needs=_needs(),
    kinds=KINDS,
    rests=("Job.batch",),
)

two_teams = Scenario(
    name="kueue-teams",
    summary="two teams ask for the whole quota at the same time, and take turns",
    run=run_teams,
    needs=_needs(seconds=3),
    kinds=KINDS,
)

promised = Scenario(
    name="kueue-promised",
    summary="quota for 8 where there are 4 slots: a gang of 5 starts in part, and is evicted where Kueue is told to",
    run=run_promised,
    needs=_needs(seconds=4),
    kinds=KINDS,
)

drained = Scenario(
    name="kueue-drained",
    summary="a Job runs, its queue is drained and opened again",
    run=run_drained,
    needs=_needs(*STOPS, seconds=3),
    kinds=KINDS,
    rests=("Workload",),
)

labels = Scenario(
    name="kueue-labels",
    summary="a Job without a queue label, and one that names a LocalQueue which is not there",
    run=run_labels,
    needs=_needs(slots=False),
    kinds=KINDS,
    rests=("Job.batch", "LocalQueue", "Workload"),
)
