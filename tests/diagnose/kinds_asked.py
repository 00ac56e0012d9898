"""Gangs whose GPUs stand under limits alone: enqueue does not count them, a diagnosis does."""

from tests.diagnose.kinds_placed import Plant, Row
from tests.diagnose.planting import GPU, Dump

NO_ROOM = "pod group is not ready, 4 Pending, 4 minAvailable; Pending: 1 Unschedulable, 3 Schedulable"


def _limits_only(
    *gpus: int,
    resource: str = GPU,
    text: str = NO_ROOM,
    capability: str = "",
    allocated: str = "0",
    enqueued: str = "",
) -> Plant:
    """Return four pods of 4 that wait at allocation: the PodGroup tells of no GPU, or of those of some roles only."""

    def plant() -> Dump:
        dump = Dump().nodes(*gpus, resource=resource).held()
        dump.queue(capability={resource: capability} if capability else {})
        dump.of("Queue")[0]["status"]["allocated"] = {resource: allocated}
        for spec in (dump.task(0), dump.task(1), *(p["spec"] for p in dump.pods)):
            spec["containers"][0]["resources"] = {"limits": {resource: "4"}, "requests": {"cpu": "10m"}}
        dump.group["spec"]["minResources"] = {
            "cpu": "40m", "requests.cpu": "40m", "pods": "4", "count/pods": "4",
            **({resource: enqueued} if enqueued else {}),
        }  # fmt: skip
        return dump.unbind(*dump.pods, message=text).drop("Event").later()

    return plant


def _elastic_at_its_limit() -> Dump:
    dump = _limits_only(8, 8, capability="8")()
    dump.job["spec"]["minAvailable"] = dump.group["spec"]["minMember"] = 2
    return dump


def _of_kube_scheduler() -> Dump:
    dump = _limits_only(8, 8, 8, capability="12", text="0/3 nodes are available: 3 Insufficient cpu.")()
    for spec in (dump.job["spec"], dump.task(0), dump.task(1), *(p["spec"] for p in dump.pods)):
        spec["schedulerName"] = "default-scheduler"
    return dump


def _places_in_sight(*gpus: int) -> Plant:
    """Return members that are each told another node, which says nothing of why the gang waits."""

    def plant() -> Dump:
        dump = _limits_only(*gpus)()
        for number, pod in enumerate(dump.pods):
            text = f"Pod {dump.namespace}/{pod['metadata']['name']} can possibly be assigned to node-{number % 2 + 1}"
            text += ", once resource is released and minAvailable is satisfied"
            dump.unbind(pod, message=text)
        told = {
            "type": "Unschedulable",
            "status": "True",
            "reason": "NotEnoughResources",
            "transitionID": "x",
        }
        dump.group["status"]["conditions"] = [
            {
                **told,
                "message": f"1/4 tasks in gang unschedulable: {NO_ROOM}",
                "lastTransitionTime": dump.ago(5),
            }
        ]
        return dump

    return plant


KINDS: dict[str, Row] = {
    "limits only, above the queue": (
        _limits_only(8, 8, capability="12"),
        "refused",
        "over-capability",
        ["asks for 16 nvidia.com/gpu", "may have 12"],
        ["would fit"],
    ),
    "limits only, above the queue, AMD": (
        _limits_only(
            8, 8, resource="amd.com/gpu", capability="15", text="0/2 nodes are available: 2 Insufficient cpu."
        ),
        "refused",
        "over-capability",
        ["asks for 16 amd.com/gpu", "may have 15"],
        ["would fit", "nvidia"],
    ),
    "limits only, above the cluster": (
        _limits_only(8, 4),
        "refused",
        "over-cluster",
        ["asks for 16 nvidia.com/gpu", "together have 12"],
        ["would fit"],
    ),
    "limits only, above queue and cluster": (
        _limits_only(8, text="0/1 nodes are available: 1 Insufficient cpu.", capability="8"),
        "refused",
        "over-capability",
        ["asks for 16 nvidia.com/gpu", "may have 8"],
        ["would fit"],
    ),
    "limits only, queue in use": (
        _limits_only(8, 8, 8, 8, capability="24", allocated="12"),
        "refused",
        "queue-full",
        ["may have 24", "12 are in use", "asks for 16"],
        ["would fit"],
    ),
    "one role under limits only": (
        _limits_only(8, 8, capability="12", enqueued="4"),
        "refused",
        "over-capability",
        ["asks for 16 nvidia.com/gpu", "may have 12"],
        ["asks for 4 "],
    ),
    "elastic, its minimum is what the queue may have": (
        _elastic_at_its_limit,
        "trouble",
        "fits-and-waits",
        ["would fit", "8 are asked for"],
        ["may have 8"],
    ),
    "limits only, under a scheduler that knows no queues": (
        _of_kube_scheduler,
        "trouble",
        "scheduler-name",
        ["default-scheduler"],
        ["may have 12"],
    ),
    "places in sight, never a place for the last": (
        _places_in_sight(6, 6, 6),
        "refused",
        "over-cluster",
        [
            "will never start",
            "3 usable nodes would take 3 of its 4 members",
            "asks for 4 nvidia.com/gpu",
            "4 of the 4 have a candidate node",
        ],
        ["would fit", "more than its queue", "nothing is broken"],
    ),
    "places in sight, above the cluster": (
        _places_in_sight(8, 4),
        "refused",
        "over-cluster",
        ["asks for 16 nvidia.com/gpu"],
        ["would fit"],
    ),
}
"""Kind -> how it is planted, state, code of the first cause, what must be named, what must not."""
