"""What scenarios share: programs that hold room, predicates over the live view, what a judge is told."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_gpucluster.evidence.scheduling import schedulers as reading
from pytest_gpucluster.plain import schedulers
from pytest_gpucluster.provider import PODS_RUN
from pytest_gpucluster.scenario import Handle, Live, Stage
from pytest_gpucluster.scenario.gpu_nodes import offered, require
from pytest_gpucluster.scenario.predicates import all_bound, bound, exist, running
from pytest_gpucluster.workload import Dialect, WorkloadError

TASK = "volcano.sh/task-spec"
"""Label of a Volcano Job's pods: the task that they are of."""

HOLD = ("sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait")
"""Holds room until it is ended, and ends at once when it is."""
HOLD_UNFINISHED = ("sh", "-c", "trap 'exit 143' TERM; sleep 3600 & wait")
"""The same, but what is ended has failed: a batch Job makes no pod again that ended with 0, also a deleted one."""

FILLER = ("create,delete pods",)
PAYLOAD = ("create configmaps",)
LOGS = ("get pods/log",)
"""Permissions of what scenarios share."""

PayloadCommand = ("python", "/workspace/gang.py")


def gpus_of(stage: Stage) -> int:
    """Return how many GPUs all nodes together offer."""
    return sum(offered(node, stage.profile.gpu_resource) for node in stage.live.objects("Node"))


def room(stage: Stage, gpus: int) -> None:
    """Check that the nodes offer so many GPUs; the rows of the scenario are not tested where they do not."""
    require(stage.live.objects("Node"), stage.profile.gpu_resource, gpus)


def told(stage: Stage, **facts: Any) -> None:
    """Write into the evidence's header what a judge needs and cannot see."""
    stage.given.update(
        period=stage.profile.scheduler_period,
        window=stage.profile.window_length(),
        spread=stage.profile.bind_spread,
        **facts,
    )


def judged(handle: Handle, fit: int) -> Callable[[Live], bool]:
    """Report whether the scheduler says of exactly `fit` members that they would fit; or one has a node already."""

    def check(live: Live) -> bool:
        pods = live.pods_of(handle)
        return bound(pods) > 0 or sum(_would_fit(pod) for pod in pods) == fit

    return check


def refused(handle: Handle, task: str) -> Callable[[Live], bool]:
    """Report whether the scheduler says of no member of a task that it would fit; or a member has a node already."""

    def check(live: Live) -> bool:
        pods = live.pods_of(handle)
        of_task = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(TASK) == task]
        return bound(pods) > 0 or (bool(of_task) and not any(_would_fit(pod) for pod in of_task))

    return check


def _would_fit(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    said = (c for c in conditions if c.get("type") == "PodScheduled" and c.get("status") == "False")
    readers = (reading.VOLCANO, reading.NATIVE)
    return any(r.would_fit(c.get("reason") or "", c.get("message") or "") for c in said for r in readers)


def job_phase(live: Live, handle: Handle) -> str:
    """Return the phase of a Volcano Job, or ""."""
    job = live.get(handle.kind, handle.name)
    state = ((job or {}).get("status") or {}).get("state") or {}
    return str(state.get("phase", ""))


def begun(jobs: Iterable[Handle]) -> Callable[[Live], bool]:
    """Report whether each of these Jobs has come past its first gate: it has pods, or had them."""
    wanted = tuple(jobs)
    return lambda live: all(past_enqueue(live, job) for job in wanted)


def past_enqueue(live: Live, job: Handle) -> bool:
    """Report whether a Job has pods, or had them."""
    return bool(live.pods_of(job)) or not live.exists(job) or job_phase(live, job) not in {"", "Pending"}


def at_gate(stage: Stage, handle: Handle, members: int) -> Callable[[Live], bool]:
    """Report whether a gang has come to the gate that holds gangs whole.

    By quota: Kueue has said what it thinks of it, no pod is made. By capacity: all members exist.
    """
    if stage.dialect.scarce == schedulers.QUOTA:
        looked = looked_at(stage, handle)
        return lambda live: looked(live) or len(live.pods_of(handle)) >= members
    return exist(handle, members)


def answers(live: Live, handle: Handle, dialect: Dialect) -> list[Mapping[str, Any]]:
    """Return the objects on which a scheduler says what it thinks of a gang: the object itself, or what it owns."""
    own = live.get(handle.kind, handle.name)
    if handle.kind == dialect.answers_on:
        return [own] if own is not None else []
    return [*live.objects(dialect.answers_on, owner_uid=handle.uid)]


def placed(stage: Stage, gang: Handle, members: int) -> bool:
    """Wait until a gang that proves something by running is bound whole and, where pods run, runs."""
    done = stage.wait(f"the {gang.role} is bound", all_bound(gang, members), budget="bind")
    if done and PODS_RUN in stage.cluster.features:
        return stage.wait(f"the {gang.role} runs", running(gang, members), budget="start")
    return done


def looked_at(stage: Stage, handle: Handle) -> Callable[[Live], bool]:
    """Report whether the declared scheduler has looked at a gang and said what it thinks of it."""
    dialect = stage.dialect
    return lambda live: any(dialect.looked_at(obj) for obj in answers(live, handle, dialect))


def own_api_only(stage: Stage, what: str) -> None:
    """Check that the declared scheduler has jobs and queues of its own.

    Raises:
        WorkloadError: it has none.
    """
    if not stage.dialect.own_api:
        raise WorkloadError(f"{what}: the declared scheduler, {stage.dialect.name}, has no such thing")
