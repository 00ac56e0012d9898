"""What waits ask of the live view: members that exist, are bound, run or have ended, and what makes waiting vain."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_gpucluster.scenario.live import Live
from pytest_gpucluster.scenario.submit import Handle
from pytest_gpucluster.workload import dialect

Pod = Mapping[str, Any]


def phase(pod: Mapping[str, Any]) -> str:
    """Return a pod's phase."""
    return str((pod.get("status") or {}).get("phase", ""))


def bound(pods: Iterable[Pod]) -> int:
    """Return how many pods have a node."""
    return sum(1 for pod in pods if pod["spec"].get("nodeName"))


def exist(handle: Handle, count: int) -> Callable[[Live], bool]:
    """Report whether `count` members exist."""
    return lambda live: len(live.pods_of(handle)) >= count


def all_bound(handle: Handle, count: int) -> Callable[[Live], bool]:
    """Report whether `count` members have a node."""
    return lambda live: bound(live.pods_of(handle)) >= count


def running(handle: Handle, count: int) -> Callable[[Live], bool]:
    """Report whether `count` members run, all containers ready, or have ended well."""
    return lambda live: sum(map(_runs, live.pods_of(handle))) >= count


def _runs(pod: Pod) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    ready = bool(statuses) and all(status.get("ready") for status in statuses)
    return phase(pod) == "Succeeded" or (phase(pod) == "Running" and ready)


def finished(handle: Handle, count: int) -> Callable[[Live], bool]:
    """Report whether `count` members have ended."""
    return lambda live: sum(phase(pod) in {"Succeeded", "Failed"} for pod in live.pods_of(handle)) >= count


def succeeded(handle: Handle, count: int) -> Callable[[Live], bool]:
    """Report whether `count` members have ended well."""
    return lambda live: sum(phase(pod) == "Succeeded" for pod in live.pods_of(handle)) >= count


def failed(handle: Handle) -> Callable[[Live], str]:
    """Tell which member has failed, and how; "" while none has."""

    def check(live: Live) -> str:
        for pod in live.pods_of(handle):
            if phase(pod) == "Failed":
                return f"Pod/{pod['metadata']['name']} failed: {_ending(pod)}"
        return ""

    return check


def _ending(pod: Pod) -> str:
    status = pod.get("status") or {}
    ended = [
        (one.get("name"), state)
        for one in status.get("containerStatuses") or []
        if (state := (one.get("state") or {}).get("terminated"))
    ]
    words = [f"container {name} ended with exit code {state.get('exitCode')}" for name, state in ended]
    words += [str(status[field]) for field in ("reason", "message") if status.get(field)]
    return ", ".join(words) or "no reason given"


def job_ended(handle: Handle) -> Callable[[Live], bool]:
    """Report whether a Job, of Volcano or of Kubernetes, has come to an end that it does not leave."""
    return lambda live: dialect.has_ended(handle.kind, live.get(handle.kind, handle.name) or {})


def gave_up(gang: Handle) -> Callable[[Live], str]:
    """Tell when an agent has used up its own restarts and was started anew: the world does not form."""

    def check(live: Live) -> str:
        for pod in live.pods_of(gang):
            for status in (pod.get("status") or {}).get("containerStatuses") or []:
                if status.get("restartCount"):
                    return f"torchrun in {pod['metadata']['name']} gave up after its restarts"
        return ""

    return check
