"""What the rows about NUMA nodes share: sizes, trials by what they can show, causes and their fixes."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from pytest_gpucluster.evidence.hardware import numa_trials
from pytest_gpucluster.evidence.hardware.numa_trials import OPEN, RAN, REJECTED, Stated, Trial
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Presupposed, Verdict

SINGLE = "single-numa-node"
TWO = 2

POLICY = Cause(
    "the node's kubelet does not run the Topology Manager policy single-numa-node",
    "set topologyManagerPolicy: single-numa-node and topologyManagerScope: pod in the KubeletConfiguration of every "
    "GPU node, drain it and restart its kubelet",
)
SCOPE = Cause(
    "the node's kubelet aligns each container separately",
    "set topologyManagerScope: pod in the KubeletConfiguration, drain the node and restart its kubelet",
)
NO_TOPOLOGY = Cause(
    "the device plugin reports no NUMA node for its devices, so no policy ever acts on them",
    "look at /sys/bus/pci/devices/ADDRESS/numa_node on the node: -1 means none (usual in virtual machines that "
    "hide NUMA); pass the NUMA topology through, and use a device plugin that reports it",
)
ONE_NUMA = Cause(
    "the machine has one NUMA node, whatever the device plugin reports: the kubelet ignores ids that do "
    "not exist on the machine",
    "compare `lscpu | grep NUMA` on the node with the ids of the devices; switch NUMA on in firmware (NPS) or in the "
    "virtual machine",
)
NOT_RESTARTED = Cause(
    "the kubelet's real configuration differs from what it or its exporter reports",
    "restart the kubelet; delete /var/lib/kubelet/cpu_manager_state if it complains about a changed policy",
)
BUS = Cause(
    "the device plugin and the machine report different NUMA nodes for a GPU",
    "compare its log with /sys/bus/pci/devices/ADDRESS/numa_node on the node; restart the plugin",
)
NO_DEVICES = Cause(
    "the kubelet did not get the devices from their plugin: one is lost or unhealthy, or the plugin was away",
    "read the pod's message (kubectl describe pod) and the device plugin's log; if a GPU is lost, cordon the node, "
    "reset or replace the GPU",
)
FRAGMENTED = Cause(
    "free devices are split over NUMA nodes, so that a pod that would fit an empty node is rejected",
    "ask for GPUs in sizes that divide a NUMA node, and use a scheduler that knows NUMA nodes",
)
SHORTAGE = Cause(
    "the kubelet has fewer free devices than the scheduler believes",
    "look for pods that are terminating or that bypassed the scheduler, and at the device plugin's log",
)
NO_ROOM = Cause(
    "the GPUs of the nodes are in use", "run this area when a GPU node is empty, or drain one for it"
)


@dataclasses.dataclass(frozen=True)
class Terms:
    """What is declared of the nodes' alignment, and what follows from it.

    Attributes:
        policy: declared policy.
        scope: declared scope.
        nodes: declared NUMA nodes of a node.
        resource: the GPU resource.
        gpus: GPUs of a node; None where nobody says.
        declared: whether anything is declared, or a kubelet was seen to reject a pod for topology.
    """

    policy: str
    scope: str
    nodes: int
    resource: str
    gpus: int | None
    declared: bool

    @property
    def share(self) -> int | None:
        """Return how many GPUs the largest NUMA node has."""
        return None if self.gpus is None else -(-self.gpus // self.nodes)


def of(evidence: Evidence, given: subjects.Given) -> Terms:
    """Return the terms; a recording that declares nothing is read as two NUMA nodes and single-numa-node, scope pod."""
    told = fields.sub(given, "numa")
    gpus = subjects.count(given, "gpus_per_node")
    if gpus is None:
        bound = [pod.node for pod in (t.pod for t in numa_trials.trials(evidence, given)) if pod.node]
        offered = [numa_trials.offers(evidence, given, node, evidence.end) for node in dict.fromkeys(bound)]
        gpus = max((n for n in offered if n), default=None)
    return Terms(
        policy=str(told.get("policy") or SINGLE),
        scope=str(told.get("scope") or "pod"),
        nodes=fields.number(told, "nodes") or TWO,
        resource=numa_trials.resource_of(given),
        gpus=gpus,
        declared=bool(told) or any(t.topology for t in numa_trials.trials(evidence, given)),
    )


def undeclared(told: Terms, required: str, *, single: bool = False) -> Finding | None:
    """Return why a row is not judged: nothing is declared, or another policy than the row is about.

    Args:
        told: the terms.
        required: what must hold.
        single: whether the row is about single-numa-node alone.
    """
    if not told.declared:
        text = "the profile declares nothing about NUMA nodes, and no kubelet rejected a pod for topology"
        return wording.finding(Verdict.INCONCLUSIVE, required, text)
    if single and told.policy != SINGLE:
        text = f"the profile declares the policy {told.policy}, under which such a pod may run"
        return wording.finding(Verdict.NOT_APPLICABLE, required, text)
    return None


def misfits(told: Terms, tried: Sequence[Trial]) -> list[Trial]:
    """Return the pods of one container that ask for more than a NUMA node has, and for no whole CPUs.

    Where nobody says how many GPUs a node has, those are such that were rejected and are larger than any that ran.
    """
    plain = [
        t
        for t in tried
        if len(t.each) == 1 and t.cpus == 0 and not numa_trials.init_containers(t.pod.last, told.resource)
    ]
    if told.share is not None and told.gpus is not None:
        return [t for t in plain if told.share < t.asked <= told.gpus]
    largest = max((t.asked for t in tried if t.outcome == RAN), default=0)
    return [t for t in plain if t.topology and t.asked > largest]


def fitting(told: Terms, tried: Sequence[Trial]) -> list[Trial]:
    """Return the pods that one NUMA node can serve.

    Where nobody says how many GPUs a node has, none that was rejected and is larger than any that ran, whatever else
    is in it.
    """
    if told.share is not None:
        return [t for t in tried if t.asked <= told.share]
    largest = max((t.asked for t in tried if t.outcome == RAN), default=0)
    large = [t for t in tried if len(t.each) == 1 and t.topology and t.asked > largest]
    smallest = min((t.asked for t in large), default=0)
    return [t for t in tried if t not in large and (not smallest or t.asked < smallest)]


def split(told: Terms, tried: Sequence[Trial]) -> list[Trial]:
    """Return the pods that fit no NUMA node as a whole, and one container by container."""
    share = told.share
    if share is None:
        return []
    return [t for t in tried if len(t.each) > 1 and sum(t.each) > share and max(t.each) <= share]


def where(tried: Iterable[Trial]) -> tuple[str, ...]:
    """Return pods and nodes for a finding, what they hold with them."""
    found = []
    for trial in tried:
        held = ", ".join(
            f"{name}@{'?' if node is None else node}" for name, node in sorted(trial.devices.items())
        )
        found.append(f"{trial.pod.where}{f': {held}' if held else ''}")
    return tuple(found[: wording.MANY]) + (
        (f"and {len(found) - wording.MANY} more",) if len(found) > wording.MANY else ()
    )


def keys(tried: Iterable[Trial]) -> tuple[str, ...]:
    """Return the keys of the deciding lines."""
    return tuple(trial.key for trial in tried)[: wording.MANY]


def listed(tried: Iterable[Trial]) -> str:
    """Return the trials by name, with what each asked for."""
    return wording.listed([trial.title for trial in tried], 4)


def repeat(tried: Iterable[Trial]) -> tuple[str, ...]:
    """Return kubectl lines that show what a kubelet made of the pods, and how it is configured."""
    nodes = sorted({trial.node for trial in tried if trial.node})
    lines = [f"kubectl get --raw /api/v1/nodes/{node}/proxy/configz" for node in nodes[:1]]
    spaces = sorted({trial.pod.namespace for trial in tried if trial.pod.namespace})
    lines += [
        f"kubectl -n {space} get events --field-selector reason=TopologyAffinityError" for space in spaces[:1]
    ]
    return tuple(lines)


def violation(
    required: str, observed: str, tried: Sequence[Trial], *, causes: tuple[Cause, ...], **more: Any
) -> Finding:
    """Return the finding that these trials break a row: where they are, what decides it and how to look again."""
    return wording.finding(
        Verdict.FAIL,
        required,
        observed,
        violation=True,
        where=where(tried),
        causes=causes,
        evidence=keys(tried),
        repeat=repeat(tried),
        **more,
    )


def undecided(tried: Sequence[Trial], required: str, what: str) -> Finding | None:
    """Return why a set of trials shows nothing: there are none, or none was decided by its kubelet."""
    if not tried:
        return wording.finding(Verdict.INCONCLUSIVE, required, f"no pod {what} was tried")
    still = [t for t in tried if t.outcome == OPEN]
    if len(still) < len(tried):
        return None
    unbound = [t for t in still if not t.node]
    text = f"no pod {what} was decided by a kubelet: {listed(still)}"
    if unbound:
        text += "; the scheduler found no node for it"
    return wording.finding(
        Verdict.INCONCLUSIVE,
        required,
        text,
        where=where(still),
        causes=(NO_ROOM,) if unbound else (),
        evidence=keys(still),
    )


def refused_otherwise(tried: Iterable[Trial]) -> list[Trial]:
    """Return the pods that a kubelet refused for another reason than topology, or for a shortage that passes for it."""
    return [t for t in tried if t.outcome == REJECTED and (not t.topology or t.fitted is not True)]


def why_refused(trial: Trial) -> str:
    """Return why a refusal says nothing about topology."""
    if not trial.topology:
        said = f" ({wording.short(trial.message)})" if trial.message else ""
        return f"{trial.title} was refused with {trial.reason}{said}"
    if trial.fitted is False:
        free = wording.count(trial.free or 0, "device was", "devices were")
        return f"{trial.title} was refused, but only {free} free"
    return f"{trial.title} was refused, but it is not known whether enough devices were free"


def stated(evidence: Evidence) -> dict[str, tuple[Stated | None, Stated | None]]:
    """Return node -> what its kubelet and what an exporter say."""
    kubelet, exporter = numa_trials.by_kubelet(evidence), numa_trials.by_exporter(evidence)
    return {node: (kubelet.get(node), exporter.get(node)) for node in sorted({*kubelet, *exporter})}


def causes_of_running(evidence: Evidence, trial: Trial) -> tuple[Cause, ...]:
    """Return why a pod ran that does not fit a NUMA node, likeliest first."""
    said = numa_trials.by_kubelet(evidence).get(trial.node)
    if trial.unreported:
        return (NO_TOPOLOGY, POLICY)
    if said is not None and said.policy == SINGLE:
        return (NOT_RESTARTED, NO_TOPOLOGY)
    return (POLICY, NO_TOPOLOGY)


def two_numa_nodes(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the nodes have two NUMA nodes, as their kubelets see it.

    Two ids among the devices do not show it: the kubelet ignores ids that the machine lacks, still rejects what is
    larger than what lies on its only NUMA node, and aligns nothing.
    """
    name = "the nodes have two NUMA nodes"
    told = of(evidence, given)
    if told.nodes < TWO:
        return wording.presupposed(name, held=False, observed="the profile declares one NUMA node")
    tried = numa_trials.trials(evidence, given)
    strict = {t.node for t in misfits(told, tried) if t.topology}
    apart = [t for t in fitting(told, tried) if len(t.nodes) > 1 and t.node in strict]
    if apart:
        text = f"a kubelet that rejects for topology took devices of several NUMA nodes: {listed(apart)}"
        return wording.presupposed(name, held=False, observed=text, causes=(ONE_NUMA,), evidence=keys(apart))
    seen = {node for trial in tried for node in trial.nodes}
    if len(seen) >= TWO:
        text = f"devices are on NUMA nodes {', '.join(map(str, sorted(seen)))}"
        return wording.presupposed(name, held=True, observed=text)
    share = told.share
    if seen and share is not None and any(len(names) > share for names in _devices(tried).values()):
        text = f"all devices seen are on NUMA node {next(iter(seen))}"
        return wording.presupposed(name, held=False, observed=text, causes=(ONE_NUMA,))
    return wording.presupposed(name, held=None, observed="no devices of two NUMA nodes were seen")


def _devices(tried: Iterable[Trial]) -> dict[str, set[str]]:
    """Return node -> the devices seen there whose NUMA node is known."""
    found: dict[str, set[str]] = {}
    for trial in tried:
        found.setdefault(trial.node, set()).update(
            name for name, at in trial.devices.items() if at is not None
        )
    return found
