"""How Kueue is configured: the part of its `Configuration` that is followed here, in its own field names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_gpucluster.plain.times import parse_duration

BATCH_SECONDS = 0.05
"""How long changes are gathered before refused workloads are tried again and before the counts of queues are written;
1 s in Kueue. The configuration key `batchSeconds`, which Kueue does not have, sets it."""
LONGEST_BACKOFF = 3600.0
FIRST_BACKOFF = 60.0


@dataclass(frozen=True)
class WaitForPodsReady:
    """`waitForPodsReady`: what happens to an admitted workload whose pods are not all ready.

    Attributes:
        timeout: Seconds from admission within which all pods must be ready.
        recovery: Seconds for a pod to come back after all were ready; None waits for ever.
        block: Whether nothing is admitted while an admitted workload is not ready.
        limit: Evictions after which the workload is deactivated; None sets no limit.
        first: Seconds before an evicted workload is queued again, doubled each time.
        longest: Most seconds of that wait.
        by_eviction: Whether an evicted workload queues by the time of its eviction, else by that of its creation.
    """

    timeout: float
    recovery: float | None
    block: bool = False
    limit: int | None = None
    first: float = FIRST_BACKOFF
    longest: float = LONGEST_BACKOFF
    by_eviction: bool = True


@dataclass(frozen=True)
class Settings:
    """What Kueue runs with.

    Attributes:
        wait: `waitForPodsReady`; None where it is not configured, the default of v0.17.
        every_job: `manageJobsWithoutQueueName`.
        batch: See `BATCH_SECONDS`.
    """

    wait: WaitForPodsReady | None = None
    every_job: bool = False
    batch: float = BATCH_SECONDS

    @classmethod
    def of(cls, config: object) -> "Settings":
        """Return the settings of the configuration key `kueue`: true, or an object in Kueue's own field names.

        Raises:
            ValueError: for an unknown field or a value of the wrong shape, in one line.
        """
        if not isinstance(config, Mapping):
            return cls()
        _only(config, {"waitForPodsReady", "manageJobsWithoutQueueName", "batchSeconds"}, "kueue")
        waiting = config.get("waitForPodsReady")
        return cls(
            wait=None if waiting is None else _waiting(waiting),
            every_job=bool(config.get("manageJobsWithoutQueueName", False)),
            batch=float(config.get("batchSeconds", BATCH_SECONDS)),
        )


def takes_every_job(settings: Settings, has: Callable[[str], bool]) -> bool:
    """Report whether Jobs without a queue label are managed, as configured or by a planted defect."""
    return settings.every_job or has("kueue.manages-unlabelled")


def _waiting(stated: Any) -> WaitForPodsReady:
    where = "kueue.waitForPodsReady"
    if not isinstance(stated, Mapping):
        raise ValueError(f"{where} must be an object")  # noqa: TRY004 - one kind of error for all of them
    _only(stated, {"timeout", "recoveryTimeout", "blockAdmission", "requeuingStrategy"}, where)
    again = stated.get("requeuingStrategy") or {}
    known = {"timestamp", "backoffLimitCount", "backoffBaseSeconds", "backoffMaxSeconds"}
    _only(again, known, f"{where}.requeuingStrategy")
    recovery = stated.get("recoveryTimeout")
    limit = again.get("backoffLimitCount")
    return WaitForPodsReady(
        timeout=parse_duration(str(stated.get("timeout", "5m"))),
        recovery=None if recovery is None else parse_duration(str(recovery)),
        block=bool(stated.get("blockAdmission", False)),
        limit=None if limit is None else int(limit),
        first=float(again.get("backoffBaseSeconds", FIRST_BACKOFF)),
        longest=float(again.get("backoffMaxSeconds", LONGEST_BACKOFF)),
        by_eviction=again.get("timestamp", "Eviction") == "Eviction",
    )


def _only(stated: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(stated) - known)
    if unknown:
        raise ValueError(
            f"unknown fields of {where}: {', '.join(unknown)} (there are: {', '.join(sorted(known))})"
        )
