"""Which gang, queue and task comes first."""

import re
from fractions import Fraction
from typing import Any

from pytest_gpucluster.embedded.volcano.amounts import ZERO, Amounts
from pytest_gpucluster.embedded.volcano.scheduler.model import Gang, QueueShare, Task


def dominant_share(gang: Gang, cluster: Amounts) -> Fraction:
    """Return the largest part of the cluster that a gang holds of any one resource (plugin drf)."""
    return share_of(gang.allocated(), cluster)


def share_of(amount: Amounts, cluster: Amounts) -> Fraction:
    """Return the largest part of the cluster that an amount is of any one resource."""
    return max((v / cluster[k] for k, v in amount.items() if cluster.get(k, ZERO)), default=ZERO)


def gang_key(gang: Gang, cluster: Amounts) -> tuple[Any, ...]:
    """Return the sort key of gangs in a queue.

    Priority, then those that are not yet ready, then the smaller share of the cluster, then creation time
    in whole seconds, then the name.
    """
    return (
        -gang.priority,
        gang.is_judged and gang.is_ready(),
        dominant_share(gang, cluster),
        gang.group["metadata"]["creationTimestamp"],
        gang.namespace,
        gang.name,
    )


def queue_key(queue: QueueShare) -> tuple[Any, ...]:
    """Return the sort key of queues: priority, the smaller share first, then creation time and name."""
    spec = queue.queue["spec"]
    created = queue.queue["metadata"]["creationTimestamp"]
    return (-int(spec.get("priority") or 0), queue.share(), created, queue.name)


def task_key(task: Task) -> tuple[Any, ...]:
    """Return the sort key of tasks in a gang: priority, index within the role, then creation time and name.

    Volcano decides last by uid, which is by chance; the name stands in for it.
    """
    parts = [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", task.name)]
    return (
        -int(task.pod["spec"].get("priority") or 0),
        next((part for part in reversed(parts) if isinstance(part, int)), 0),
        task.pod["metadata"]["creationTimestamp"],
        parts,
    )
