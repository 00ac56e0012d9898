"""Scarcity made with slots: room for all but one, two gangs for the room of one, and the contrast.

The sizes are such that every gang passes Volcano's gates at enqueue and meets the gang gate (catalogue, rule 2): what
one queue asks for stays within the total, at most 1.2 x total less what others hold, and what is missing is held by a
pod that is not Volcano's, or is missing by fragmentation. Recorded for Volcano v1.14.4: b3, c2-three-nodes-equal, h1.
"""

from pytest_gpucluster.plain import schedulers
from pytest_gpucluster.scenario import Handle, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import all_bound, bound, exist, finished, job_ended
from pytest_gpucluster.scenario.programs import image, speaking
from pytest_gpucluster.workload import Dialect, GangSpec, Role, filler

from .common import FILLER, HOLD, at_gate, told

PER_NODE = 8
MEMBERS = 4
SIZE = 4
"""Slots of each member; two nodes of 8 hold exactly four."""


def _gang(
    name: str, image: str, resource: str, *, members: int, size: int, command: tuple[str, ...]
) -> GangSpec:
    return GangSpec(name, roles=(Role("worker", members, command),), resources={resource: size}, image=image)


PAIR_QUOTA = 15
"""Quota for two gangs of 12, where quota is what is scarce: each fits, not both, and one member of the loser would."""


def _fill(stage: Stage, *, quota: bool) -> tuple[str, Dialect, Handle]:
    """Make room for all members but one; returns the slot resource, how gangs are written, and what holds the rest.

    Where quota is scarce all of it is that of a queue of ours, and what holds the rest is a Job of that queue.
    """
    slots = stage.slots(nodes=2, per_node=PER_NODE)
    told(
        stage,
        members=MEMBERS,
        min_member=MEMBERS,
        resource=slots.resource,
        currency="quota" if quota else "slots",
        total=slots.total,
        size=SIZE,
    )
    dialect, name, python = stage.dialect, f"{stage.name}-blocker", image(stage, "python")
    if quota:
        dialect = speaking(stage, {slots.resource: slots.total})
        held = _gang(name, python, slots.resource, members=1, size=1, command=HOLD)
        blocker = stage.gang(held, role="blocker", dialect=dialect)
    else:
        blocker = stage.submit(filler(name, {slots.resource: 1}, python, HOLD), role="blocker")
    stage.wait("the blocker is bound", lambda live: bound(live.pods_of(blocker)) == 1, budget="bind")
    stage.note("scarce", resource=slots.resource, total=slots.total, free=slots.total - 1)
    return slots.resource, dialect, blocker


def run_scarce(stage: Stage, role: str) -> None:
    """Submit a gang of four where three fit, watch, make room, watch; the contrast under the default scheduler."""
    contrast = role == "contrast"
    quota = not contrast and stage.dialect.scarce == schedulers.QUOTA
    resource, dialect, blocker = _fill(stage, quota=quota)
    dialect = stage.contrast if contrast else dialect
    wanted = _gang(stage.name, image(stage, "python"), resource, members=MEMBERS, size=SIZE, command=HOLD)
    gang = stage.gang(wanted, role=role, dialect=dialect)
    # A gang without members was refused before the gang gate: making room would show nothing about gangs.
    there = exist(gang, MEMBERS) if contrast else at_gate(stage, gang, MEMBERS)
    made = gang.ok and stage.wait("all members exist, or quota was refused", there, budget="enqueue")
    if made:
        stage.window("scarce")
    stage.delete(blocker, note="room-made", wait=False)
    if made:
        stage.wait("all members are bound", all_bound(gang, MEMBERS), budget="bind")
    if gang.ok:
        stage.delete(gang)


def run_two_gangs(stage: Stage) -> None:
    """Submit two gangs at once, each fits, not both; let the winner end and the loser run."""
    slots = stage.slots(nodes=3, per_node=PER_NODE)
    quota = stage.dialect.scarce == schedulers.QUOTA
    told(
        stage,
        members=4,
        min_member=4,
        resource=slots.resource,
        currency="quota" if quota else "slots",
        total=PAIR_QUOTA if quota else slots.total,
        size=3,
    )
    dialect = speaking(stage, {slots.resource: PAIR_QUOTA})
    if quota:
        stage.note("scarce", resource=slots.resource, total=PAIR_QUOTA, free=PAIR_QUOTA - 12)
    # The winner runs long enough for the loser to be watched for a whole window.
    seconds = str(round(stage.profile.window_length() + 1.0, 1))
    gangs = [
        stage.gang(
            _gang(
                f"{stage.name}-{side}",
                image(stage, "python"),
                slots.resource,
                members=4,
                size=3,
                command=("sleep", seconds),
            ),
            role=side,
            dialect=dialect,
        )
        for side in ("left", "right")
    ]
    compete(stage, gangs)


def compete(stage: Stage, gangs: list[Handle]) -> None:
    """Watch two gangs of four want the same room, let the winner end and the loser run, and delete both."""
    if not all(gang.ok for gang in gangs):
        return
    if contend(stage, gangs):
        ended = [job_ended(gang) for gang in gangs]
        finals = [finished(gang, 4) for gang in gangs]
        stage.wait(
            "both gangs have run to their end",
            lambda live: all(done(live) for done in ended) or all(done(live) for done in finals),
            budget="finish",
        )


def contend(stage: Stage, gangs: list[Handle]) -> bool:
    """Watch both gangs want the same room; returns whether one of them got it."""
    there = [at_gate(stage, gang, 4) for gang in gangs]
    made = stage.wait(
        "all members of both exist, or quota was refused",
        lambda live: all(each(live) for each in there),
        budget="enqueue",
    )
    won = made and stage.wait(
        "one gang is bound whole",
        lambda live: any(bound(live.pods_of(gang)) == 4 for gang in gangs),
        budget="bind",
    )
    if made:
        stage.window("contention")
    return won


scarce_gang = Scenario(
    name="scarce",
    summary="a gang of 4 where 3 fit; then the blocker goes and all fit",
    run=lambda stage: run_scarce(stage, "subject"),
    needs=Needs(
        slot_nodes=2, slots_per_node=PER_NODE, nodes=2, seconds=4, pods_run=False, permissions=FILLER
    ),
)

contrast_gang = Scenario(
    name="contrast",
    summary="the same gang and the same scarcity under the default scheduler",
    run=lambda stage: run_scarce(stage, "contrast"),
    needs=Needs(
        slot_nodes=2,
        slots_per_node=PER_NODE,
        nodes=2,
        seconds=4,
        pods_run=False,
        gang=False,
        permissions=(*FILLER, "create,delete,list,watch jobs.batch"),
    ),
)

two_gangs = Scenario(
    name="two-gangs",
    summary="two gangs of 4 x 3 at once on 3 nodes of 8: each fits, not both, part of the loser would",
    run=run_two_gangs,
    needs=Needs(slot_nodes=3, slots_per_node=PER_NODE, nodes=3, seconds=8, pods_run=True),
)
