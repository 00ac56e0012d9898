"""Gangs that must stay inside one domain of the network, where each domain has too little for the larger one.

Slots are put on nodes of two domains: four in one, three in another. A gang of five fits only across both; one of four
fits into the first alone, while three slots are free in the other.
"""

import dataclasses

from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, SlotPool, Stage, network_domains, tried
from pytest_gpucluster.scenario.predicates import all_bound, bound, exist
from pytest_gpucluster.scenario.programs import image
from pytest_gpucluster.workload import Dialect, GangSpec, Role, WorkloadError

from .common import HOLD, told
from .kueue import JOBS, KINDS, QUOTA, looked_at, running, status_of, workload_of

HOME, OTHER = 4, 3
"""Slots of the first domain, and of the other."""
INSIDE, ACROSS = 4, 5
"""Members of the gang that fits into the first, and of the one that fits only across both; each asks for one slot."""


def scarce_domains(stage: Stage) -> SlotPool:
    """Put slots on nodes of two domains, and tell judges what is scarce."""
    topology = stage.profile.topology
    assert topology is not None, "the scenario does not apply without this section"
    chosen = network_domains.two(stage.live.objects("Node"), topology)
    per_node = [*([HOME // len(chosen.home)] * len(chosen.home)), OTHER]
    slots = stage.slots(nodes=(*chosen.home, chosen.other), per_node=per_node)
    told(stage, resource=slots.resource, currency="slots", total=slots.total)
    return slots


def gang(stage: Stage, role: str, members: int, slots: SlotPool, dialect: Dialect) -> Handle:
    """Submit a gang that requires one domain of the declared level."""
    topology = stage.profile.topology
    assert topology is not None, "the scenario does not apply without this section"
    spec = GangSpec(
        f"{stage.name}-{role}",
        roles=(Role("worker", members, HOLD),),
        resources={slots.resource: 1},
        image=image(stage, "python"),
        domain=topology.level,
    )
    return stage.submit(dialect.write(spec), role=role)


def run_kueue(stage: Stage) -> None:
    """Let Kueue look at the gang that fits only across domains while all slots are free, then at the one that fits."""
    slots = scarce_domains(stage)
    topology = stage.profile.topology
    # Quota for both gangs: what is scarce is room in each domain.
    levels = () if topology is None else topology.levels
    quota = stage.cluster_queue({slots.resource: INSIDE + ACROSS}, topology=levels)
    if not quota.ok:
        return
    dialect = dataclasses.replace(stage.speaks("kueue"), queue=quota.queue)
    across = gang(stage, "across", ACROSS, slots, dialect)
    if not across.ok:
        return

    def admitted(live: Live) -> str | bool:
        return status_of(workload_of(live, across), "QuotaReserved") == "True" and "it was admitted"

    if stage.wait("Kueue has looked at the gang", looked_at(across), budget="enqueue"):
        stage.window("across domains", unless=admitted)
    inside = gang(stage, "subject", INSIDE, slots, dialect)
    if inside.ok:
        stage.wait("all pods of the gang that fits run", running(inside, INSIDE), budget="start")


def keeping_domains(stage: Stage) -> Dialect:
    """Return how a gang is written for the first of the schedulers tried that can keep one inside a domain.

    Raises:
        WorkloadError: none of them can.
    """
    probe = GangSpec("probe", roles=(Role("worker", 1, HOLD),), domain="probe")
    unable = WorkloadError("the profile declares no scheduler that is tried here")
    for way in tried(stage.profile):
        dialect: Dialect = stage.speaks(*way)
        try:
            dialect.write(probe)
        except WorkloadError as error:
            unable = error
        else:
            return dialect
    raise unable


def run_native(stage: Stage) -> None:
    """Submit the gang that fits only across domains while all slots are free, then the one that fits."""
    dialect = keeping_domains(stage)
    slots = scarce_domains(stage)
    across = gang(stage, "across", ACROSS, slots, dialect)
    if across.ok and stage.wait("all its members exist", exist(across, ACROSS), budget="enqueue"):
        stage.window(
            "across domains", unless=lambda live: bound(live.pods_of(across)) > 0 and "it was placed"
        )
    inside = gang(stage, "subject", INSIDE, slots, dialect)
    if inside.ok:
        stage.wait("the gang that fits is bound", all_bound(inside, INSIDE), budget="bind")


one_domain = Scenario(
    name="one-domain",
    summary="two domains of 4 and 3 slots: a gang of 5 that requires one domain, and one of 4, of a further scheduler",
    run=run_native,
    needs=Needs(
        slot_nodes=3, slots_per_node=OTHER, nodes=2, seconds=3, gang=False, further=True, placed=True
    ),
    rests=("Job.batch", "PodGroup.scheduling.k8s.io"),
)

kueue_topology = Scenario(
    name="kueue-topology",
    summary="two domains of 4 and 3 slots: a gang of 5 that requires one domain, and one of 4",
    run=run_kueue,
    needs=Needs(
        slot_nodes=3,
        slots_per_node=OTHER,
        nodes=2,
        seconds=2,
        gang=False,
        section="kueue",
        placed=True,
        permissions=(*JOBS, *QUOTA, "create,delete topologies.kueue.x-k8s.io"),
    ),
    kinds=(*KINDS, "Topology"),
    rests=("Job.batch", "Workload"),
)
