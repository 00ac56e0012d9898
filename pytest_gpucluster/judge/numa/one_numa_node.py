"""NUMA-004: CPUs, memory, GPUs and network functions of a Guaranteed pod share the NUMA node."""

from collections.abc import Sequence

from pytest_gpucluster.evidence.hardware import container_locality
from pytest_gpucluster.evidence.hardware import numa_trials as reading
from pytest_gpucluster.evidence.hardware.container_locality import Parts
from pytest_gpucluster.evidence.hardware.numa_trials import RAN, Trial
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.numa import guaranteed_pods, shared
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

REQUIRED = "CPUs, memory, GPUs and network functions of a Guaranteed pod are on one NUMA node"

MEMORY = Cause(
    "the node's Memory Manager does not bind memory to NUMA nodes, so a process gets any free memory",
    "set memoryManagerPolicy: Static with reservedMemory in the KubeletConfiguration, drain the node, delete "
    "/var/lib/kubelet/memory_manager_state and restart the kubelet",
)
FUNCTIONS = Cause(
    "the device plugin of the network functions reports no NUMA node for them, so they are allocated "
    "without regard to it",
    "use an SR-IOV or RDMA device plugin that reports topology, with a resource for each kind of function, and let the "
    "pod ask for it in the container that has the GPUs",
)
_CAUSES = {
    "CPUs": guaranteed_pods.CPU_POLICY,
    "memory": MEMORY,
    "GPUs": shared.POLICY,
    "network functions": FUNCTIONS,
}


def two_on_the_machine(evidence: Evidence, _given: subjects.Given) -> Presupposed:
    """Say whether the machine itself has two NUMA nodes."""
    name = "the machine has two NUMA nodes"
    found = container_locality.parts(evidence)
    most = max((each.machine for each in found), default=0)
    if not most:
        return wording.presupposed(
            name, held=None, observed="no container reported the NUMA nodes of its machine"
        )
    return wording.presupposed(
        name,
        held=most >= shared.TWO,
        observed=f"it has {most}",
        causes=() if most >= shared.TWO else (shared.ONE_NUMA,),
        evidence=tuple(each.key for each in found)[:1],
    )


@subjects.judge
def one_numa_node(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge NUMA-004."""
    told = shared.of(evidence, given)
    if not told.declared:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, "the profile declares nothing about NUMA nodes"
        )
    found = container_locality.parts(evidence)
    mine = {each.pod.uid for each in found}
    tried = [t for t in reading.trials(evidence, given) if t.pod.uid in mine or _cast(given, t)]
    wrong = [(each, *apart) for each in found for apart in _apart(each)]
    if wrong:
        return wording.finding(
            Verdict.FAIL,
            REQUIRED,
            wording.listed([f"{each.pod.name}: {text}" for each, text, _ in wrong], 4),
            violation=True,
            where=tuple(dict.fromkeys(each.pod.where for each, _, _ in wrong))[: wording.MANY],
            causes=tuple(dict.fromkeys(cause for _, _, causes in wrong for cause in causes)),
            evidence=tuple(dict.fromkeys(each.key for each, _, _ in wrong)),
            numbers=_numbers(found),
            facts=_facts(found),
        )
    open_ = _undecided(found, tried, bool(fields.sub(given, "numa").get("functions")))
    if open_ is not None:
        return open_
    return wording.finding(
        Verdict.PASS,
        REQUIRED,
        wording.listed([_text(each) for each in found], 4),
        where=tuple(each.pod.where for each in found)[: wording.MANY],
        evidence=tuple(each.key for each in found),
        numbers=_numbers(found),
        facts=_facts(found),
    )


def _cast(given: subjects.Given, trial: Trial) -> bool:
    members = fields.items(fields.sub(given, "roles"), container_locality.ROLE)
    return any(str(member.get("uid")) == trial.pod.uid for member in members)


def _apart(each: Parts) -> list[tuple[str, tuple[Cause, ...]]]:
    """Return what of a container spans NUMA nodes, or lies off the one of its GPUs."""
    found: list[tuple[str, tuple[Cause, ...]]] = []
    for name, node in each.told.items():
        found.append(
            (f"for {name} the plugin reports NUMA node {node}, the machine {each.gpus[name]}", (shared.BUS,))
        )
    gpus = each.gpu_nodes
    for part, nodes in each.nodes.items():
        if nodes is None:
            continue
        if len(nodes) > 1:
            found.append(
                (f"its {_named(each, part)} {_lie(part)} on NUMA nodes {_joined(nodes)}", (_CAUSES[part],))
            )
        elif gpus is not None and len(gpus) == 1 and nodes != gpus:
            text = f"its {_named(each, part)} {_lie(part)} on NUMA node {_joined(nodes)}, its GPUs on {_joined(gpus)}"
            found.append((text, (_CAUSES[part],)))
    return found


def _undecided(found: Sequence[Parts], tried: Sequence[Trial], functions: bool) -> Finding | None:
    """Return why nothing can be said, where something is missing."""
    nothing = shared.undecided(list(tried), REQUIRED, "with whole CPUs and GPUs of one NUMA node")
    if nothing is not None:
        return nothing
    refused = [t for t in tried if t.outcome != RAN]
    text = ""
    causes: tuple[Cause, ...] = ()
    if refused:
        text = f"not admitted: {wording.listed([shared.why_refused(t) for t in refused], 4)}"
        causes = (shared.SHORTAGE, shared.FRAGMENTED)
    silent = [t for t in tried if t.pod.uid not in {each.pod.uid for each in found}]
    if not text and silent:
        text = f"{shared.listed(silent)} did not report the NUMA nodes of its parts"
    if not text:
        unknown = [(each, part) for each in found for part, nodes in each.nodes.items() if nodes is None]
        if unknown:
            text = "NUMA node not known: " + wording.listed(
                [f"{part} of {e.pod.name}" for e, part in unknown], 4
            )
            causes = (shared.NO_TOPOLOGY,)
    if not text and functions:
        without = [each for each in found if not each.functions]
        if without:
            text = f"{without[0].pod.name} sees no network function, although one is declared"
            causes = (FUNCTIONS,)
    if not text:
        return None
    return wording.finding(
        Verdict.INCONCLUSIVE,
        REQUIRED,
        text,
        where=shared.where(tried),
        causes=causes,
        evidence=shared.keys(tried),
    )


def _named(each: Parts, part: str) -> str:
    if part == "CPUs" and each.cpus:
        return f"CPUs {each.cpus}"
    return f"network functions {', '.join(each.functions)}" if part == "network functions" else part


def _lie(part: str) -> str:
    return "lies" if part == "memory" else "lie"


def _joined(nodes: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))


def _text(each: Parts) -> str:
    known = [_named(each, part) for part in each.nodes]
    node = _joined(each.gpu_nodes or frozenset())
    without = "" if each.functions else " (no network function was asked for)"
    return f"{each.pod.name}: {', '.join(known[:-1])} and {known[-1]} on NUMA node {node}{without}"


def _numbers(found: Sequence[Parts]) -> tuple[Number, ...]:
    spread = [len({node for nodes in each.nodes.values() for node in nodes or ()}) for each in found]
    return (
        Number(
            "NUMA nodes that the parts of one pod lie on", max(spread, default=0), "NUMA nodes", 1, "required"
        ),
    )


def _facts(found: Sequence[Parts]) -> dict[str, object]:
    return {
        "parts": {
            each.pod.name: {
                part: None if nodes is None else sorted(nodes) for part, nodes in each.nodes.items()
            }
            for each in found
        }
    }
