"""Queues of our own: a gang above the queue's capability, a closed queue, and an enqueued gang that blocks others.

The sizes are such that the gate under test is the one that decides (recorded for Volcano v1.14.4: g1, d-refusals, b6).
"""

import dataclasses

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import Handle, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import all_bound, exist
from pytest_gpucluster.scenario.programs import image
from pytest_gpucluster.workload import GangSpec, Role

from .common import HOLD, looked_at, own_api_only, placed, told

PER_NODE = 8
CAPABILITY = 8
"""Slots that the gangs of the queue may hold together: half of what the two nodes have."""

OWN_QUEUE = ("create,delete queues.scheduling.volcano.sh",)
CLOSES_IT = ("create commands.bus.volcano.sh",)


def _gang(stage: Stage, role: str, *, members: int, slots: dict[str, int | str], queue: str = "") -> Handle:
    """Submit a gang of one task under a role, in the profile's queue or another."""
    dialect = dataclasses.replace(stage.dialect, queue=queue) if queue else stage.dialect
    spec = GangSpec(
        f"{stage.name}-{role}",
        roles=(Role("worker", members, HOLD),),
        resources=slots,
        image=image(stage, "python"),
    )
    return stage.submit(dialect.write(spec), role=role)


def run_over_capability(stage: Stage) -> None:
    """Ask for 3 x 4 slots in a queue that may have 8 of 16; then let 2 x 4 run beside it, there and elsewhere."""
    own_api_only(stage, "queues with a capability")
    slots = stage.slots(nodes=2, per_node=PER_NODE)
    # CPU and memory are stated too: a capability that leaves them out means zero to old schedulers.
    limits = {slots.resource: CAPABILITY, "cpu": "1000", "memory": "10Ti"}
    queue = stage.queue(capability=limits)
    told(
        stage,
        members=3,
        min_member=3,
        resource=slots.resource,
        currency="slots",
        total=slots.total,
        capability=CAPABILITY,
    )
    if not queue.ok:
        return
    four: dict[str, int | str] = {slots.resource: 4}
    gang = _gang(stage, "subject", members=3, slots=four, queue=queue.name)
    if not gang.ok:
        return
    stage.wait("the scheduler has looked at the gang", looked_at(stage, gang), budget="enqueue")
    stage.window("over-capability")
    control = _gang(stage, "control", members=2, slots=four, queue=queue.name)
    neighbour = _gang(stage, "neighbour", members=2, slots=four)
    ran = [placed(stage, one, 2) for one in (control, neighbour) if one.ok]
    if len(ran) == 2 and all(ran):
        stage.window("beside the refused gang", last=True)


def run_closed(stage: Stage) -> None:
    """Submit to a queue that does not exist; run a Job in an open queue of ours, close it, and submit again."""
    own_api_only(stage, "queues that can be closed")
    told(stage, cases=["unknown-queue", "closed-queue"])
    refused: list[Handle] = []

    def refuse(case: str, queue: str) -> None:
        spec = GangSpec(
            f"{stage.name}-{case}", roles=(Role("worker", 2, HOLD),), image=image(stage, "python")
        )
        job = dataclasses.replace(stage.dialect, queue=queue).write(spec)
        refused.append(stage.submit(job, role=f"case:{case}", case=case, expect_refusal=True))

    queue = stage.queue()
    refuse("unknown-queue", f"{queue.name}-unknown")
    if queue.ok:
        control = _gang(stage, "control", members=2, slots={}, queue=queue.name)
        if control.ok:
            placed(stage, control, 2)
            stage.delete(control)
        if stage.close_queue(queue):
            refuse("closed-queue", queue.name)
    stage.window("after the refusals", last=True)


def run_blocked(stage: Stage) -> None:
    """Enqueue 3 x 5 slots on two nodes of 8, which never fits; see what a fitting gang of another queue does."""
    own_api_only(stage, "gates at enqueue")
    slots = stage.slots(nodes=2, per_node=PER_NODE)
    told(stage, resource=slots.resource, currency="slots", total=slots.total)
    queue = stage.queue()
    if not queue.ok:
        return
    holder = _gang(stage, "enqueued", members=3, slots={slots.resource: 5}, queue=queue.name)
    made = holder.ok and stage.wait("all members exist", exist(holder, 3), budget="enqueue")
    blocked = _gang(stage, "blocked", members=2, slots={slots.resource: 4}) if made else None
    if blocked is not None and blocked.ok:
        stage.wait(
            "the scheduler has looked at the other gang",
            looked_at(stage, blocked),
            budget="enqueue",
        )
        stage.window(
            "blocked", unless=lambda live: all_bound(blocked, 2)(live) and "the other gang was bound"
        )
    if holder.ok:
        stage.delete(holder, note="room-made", wait=False)
    if blocked is not None and blocked.ok:
        stage.wait("the other gang is bound", all_bound(blocked, 2), budget="bind")
        stage.delete(blocked)


over_capability = Scenario(
    name="over-capability",
    summary="a gang of 12 slots in a queue of ours that may have 8 of 16; two gangs of 8 run beside it",
    run=run_over_capability,
    needs=Needs(
        slot_nodes=2, slots_per_node=PER_NODE, nodes=2, seconds=3, pods_run=False, permissions=OWN_QUEUE
    ),
)

closed_queue = Scenario(
    name="closed-queue",
    summary="Jobs for a queue that does not exist, and for one of ours that was closed",
    run=run_closed,
    needs=Needs(seconds=3, pods_run=False, permissions=OWN_QUEUE + CLOSES_IT),
    rests=(names.VC_JOB, names.POD_GROUP),
)

enqueued_blocks = Scenario(
    name="enqueued-blocks",
    summary="a gang of 3 x 5 slots that never fits on two nodes of 8, and a fitting gang of another queue",
    run=run_blocked,
    needs=Needs(
        slot_nodes=2,
        slots_per_node=PER_NODE,
        nodes=2,
        seconds=3,
        pods_run=False,
        # What it shows is that it blocks others.
        alone=True,
        permissions=OWN_QUEUE,
    ),
)
