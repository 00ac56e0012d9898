"""What scenarios share: programs that hold room, predicates over the live view, what a judge is told."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_gpucluster.evidence import schedulers
from pytest_gpucluster.kube.errors import EnvironmentProblem
from pytest_gpucluster.scenario import Handle, Live, Stage
from pytest_gpucluster.workload import config_map

HOLD = ("sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait")
"""Holds room until it is ended, and ends at once when it is."""

FILLER = ("create,delete pods",)
PAYLOAD = ("create configmaps",)
LOGS = ("get pods/log",)
"""Permissions of what scenarios share."""

PayloadCommand = ("python", "/workspace/gang.py")


def image(stage: Stage, role: str) -> str:
    """Return the image that plays a role (`python`, `torch`).

    Raises:
        EnvironmentProblem: the cluster has none; the row is then not decided.
    """
    images: Mapping[str, str] = getattr(stage.cluster, "images", {})
    if role not in images:
        facts: Mapping[str, Any] = getattr(stage.cluster, "facts", {})
        why = facts.get(f"{role}_problem") or f"the profile names no image for {role} (images.{role})"
        raise EnvironmentProblem(str(why))
    return images[role]


def payloads_of(stage: Stage, *names: str) -> str:
    """Create the ConfigMap with payload programs; returns its name."""
    name = f"{stage.name}-payloads"
    stage.submit(config_map(name, *names), role="payload")
    return name


def window_length(stage: Stage) -> float:
    """Return the seconds of a window (rule 1 of the catalogue)."""
    return max(3 * stage.profile.scheduler_period, stage.profile.window)


def told(stage: Stage, **facts: Any) -> None:
    """Write into the evidence's header what a judge needs and cannot see."""
    stage.given.update(
        scheduler=stage.dialect.scheduler,
        period=stage.profile.scheduler_period,
        window=window_length(stage),
        spread=stage.profile.bind_spread,
        **facts,
    )


def bound(pods: list[dict[str, Any]]) -> int:
    """Return how many pods have a node."""
    return sum(1 for pod in pods if pod["spec"].get("nodeName"))


def phase(pod: Mapping[str, Any]) -> str:
    """Return a pod's phase."""
    return str((pod.get("status") or {}).get("phase", ""))


def exist(handle: Handle, count: int) -> Callable[[Live], bool]:
    """Report whether `count` members exist."""
    return lambda live: len(live.pods_of(handle)) >= count


def all_bound(handle: Handle, count: int) -> Callable[[Live], bool]:
    """Report whether `count` members have a node."""
    return lambda live: bound(live.pods_of(handle)) >= count


def judged(handle: Handle, fit: int) -> Callable[[Live], bool]:
    """Report whether the scheduler says of exactly `fit` members that they would fit; or one has a node already."""

    def check(live: Live) -> bool:
        pods = live.pods_of(handle)
        return bound(pods) > 0 or sum(_would_fit(pod) for pod in pods) == fit

    return check


def _would_fit(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    said = (c for c in conditions if c.get("type") == "PodScheduled" and c.get("status") == "False")
    return any(schedulers.VOLCANO.would_fit(c.get("reason") or "", c.get("message") or "") for c in said)


def finished(handle: Handle, count: int) -> Callable[[Live], bool]:
    """Report whether `count` members have ended."""
    return lambda live: sum(phase(pod) in {"Succeeded", "Failed"} for pod in live.pods_of(handle)) >= count


def job_phase(live: Live, handle: Handle) -> str:
    """Return the phase of a Volcano Job, or ""."""
    job = live.get(handle.kind, handle.name)
    state = ((job or {}).get("status") or {}).get("state") or {}
    return str(state.get("phase", ""))


def job_ended(handle: Handle) -> Callable[[Live], bool]:
    """Report whether a Volcano Job has come to an end that it does not leave."""
    return lambda live: job_phase(live, handle) in {"Completed", "Failed", "Terminated", "Aborted"}


def begun(jobs: Iterable[Handle]) -> Callable[[Live], bool]:
    """Report whether each of these Volcano Jobs has come past its enqueue: it has pods, or had them."""
    wanted = tuple(jobs)
    return lambda live: all(past_enqueue(live, job) for job in wanted)


def past_enqueue(live: Live, job: Handle) -> bool:
    """Report whether a Volcano Job has pods, or had them."""
    return bool(live.pods_of(job)) or not live.exists(job) or job_phase(live, job) not in {"", "Pending"}


def podgroup_of(live: Live, handle: Handle) -> Mapping[str, Any] | None:
    """Return the PodGroup that a Volcano Job owns."""
    for group in live.objects("PodGroup", owner_uid=handle.uid):
        return group
    return None
