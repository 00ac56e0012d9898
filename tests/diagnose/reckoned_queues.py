"""Gangs that wait at their queue, are held at enqueue, or are refused in words that are not known."""

from typing import Any

from tests.diagnose.building import GPU, Cluster
from tests.diagnose.reckoned_rooms import FINE, GANG, Row, gang, room


def _gated_queue(state: str) -> Cluster:
    cluster = room(queue={"state": state})
    cluster.gang(3, 4, made=0, group="Pending")
    return cluster


def _refused(text: str, **queue: Any) -> Cluster:
    """Return a gang without pods that is refused at enqueue."""
    cluster = room(queue=queue)
    cluster.gang(3, 4, made=0, group="Pending")
    cluster.event(cluster.of("PodGroup")[0], "Unschedulable", text, kind="Normal")
    return cluster


def _silent(members: int, gpus: int, **more: Any) -> Cluster:
    """Return a gang that is held at enqueue, whose events have expired."""
    cluster = room()
    cluster.gang(members, gpus, made=0, group="Pending", **more)
    return cluster


def _hierarchy() -> Cluster:
    cluster = Cluster()
    cluster.queue("root")
    cluster.queue("org", capability={GPU: "8"}, parent="root")
    cluster.queue("team", parent="org")
    for number in range(3):
        cluster.node(f"n{number}")
    return gang(cluster.everywhere(), 3, 4, queue="team", message=GANG)


QUEUES: dict[str, Row] = {
    "more than the queue may have": (
        lambda: gang(room(queue={"capability": {GPU: "8"}}), 3, 4, message=GANG), "refused", "over-capability",
        ["asks for 12 nvidia.com/gpu", "may have 8", "will never start as it is"], FINE,
    ),
    "more than a queue above may have": (
        _hierarchy, "refused", "over-capability", ["queue org above its queue team may have 8"], FINE,
    ),
    "the queue is full": (
        lambda: _refused("queue resource quota insufficient: insufficient nvidia.com/gpu", capability={GPU: "16"},
                         allocated={GPU: "8"}),
        "refused", "queue-full", ["may have 16", "8 are in use"], ["will never start"],
    ),
    "the queue is closing": (
        lambda: _gated_queue("Closing"), "trouble", "queue-closed", ["Closing", "vcctl queue operate"], FINE,
    ),
    "the queue is in a state that is not known": (
        lambda: _gated_queue("Frozen"), "trouble", "queue-state", ["Frozen"], FINE,
    ),
    "refused at enqueue, and it would fit": (
        lambda: _refused("resource in cluster is overused: overused nvidia.com/gpu"), "trouble", "fits-and-waits",
        ["24 of 24"], FINE,
    ),
    "held at enqueue without a word, and it is too large": (
        lambda: _silent(5, 8), "refused", "over-cluster", ["it asks for 40 nvidia.com/gpu", "without a reason"], FINE,
    ),
    "held at enqueue without a word, for a resource that no node has": (
        lambda: _silent(2, 1, resource="acme.io/npu"), "trouble", "resource-nowhere", ["acme.io/npu"], FINE,
    ),
    "held at enqueue without a word, and it would fit": (
        lambda: _silent(2, 8), "trouble", "held-silently", ["no event gives a reason"], FINE,
    ),
    "refused at enqueue by a plugin that is not known": (
        lambda: _refused("rejected by plugin license-guard: no seats"), "trouble", "no-reason",
        ["license-guard: no seats"], FINE,
    ),
    "refused in words that are not known": (
        lambda: gang(room(), 3, 4, message="gang held: topology quorum not satisfied (policy rack-strict)"),
        "trouble", "no-reason", ["rack-strict", "24 of 24"], FINE,
    ),
    "refused in another language": (
        lambda: gang(room(), 3, 4, message="0 von 3 Knoten sind frei: zu wenig GPU"), "trouble", "no-reason",
        ["zu wenig GPU"], FINE,
    ),
    "refused by nodes for a reason that is not known": (
        lambda: gang(room(), 3, 4, message="0/3 nodes are unavailable: 3 node(s) had no matching license."),
        "trouble", "no-reason", ["no matching license"], [*FINE, "more than its queue"],
    ),
}  # fmt: skip
"""Situation -> how it is made, state, code of the first cause, what must be named, what must not."""
