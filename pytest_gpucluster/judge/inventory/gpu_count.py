"""INV-002: every GPU node offers exactly the declared number of the declared GPU resource."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import labelled_gpus, node_status
from pytest_gpucluster.evidence.objects.node_status import Machine
from pytest_gpucluster.evidence.objects.outages import Outage
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.inventory import gpu_labels, offer_history
from pytest_gpucluster.judge.inventory.gpu_labels import Odd
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

UNHEALTHY = Cause(
    "the device plugin calls a device unhealthy: capacity counts it, allocatable does not",
    "look for Xid errors and remapped rows on the node (dmesg, nvidia-smi -q), reset or replace the GPU, then restart "
    "the device plugin's pod there, which alone makes the device healthy again",
)
PLUGIN_LEFT = Cause(
    "the device plugin is gone (for some minutes the node's kubelet still counts its devices but offers none), or it "
    "calls all of them unhealthy",
    "look at the device plugin's pod on the node (kubectl get pods -A -o wide --field-selector "
    "spec.nodeName=NODE) and at its last output (kubectl logs --previous)",
)
NO_PLUGIN = Cause(
    "no device plugin is registered with the node's kubelet, or it found no device",
    "look at the device plugin's pod on the node (kubectl get pods -A -o wide --field-selector spec.nodeName=NODE) and "
    "at the driver under it",
)
FEWER = Cause(
    "the device plugin found fewer devices than the machine has",
    "compare nvidia-smi -L on the node with its hardware: a GPU fell off the bus, the driver does not see it, or "
    "it is in MIG mode and offered under another name",
)
OTHER_NAME = Cause(
    "the node offers its GPUs under another resource name",
    "set gpu_resource in the profile to the name that training pods request, or configure the device plugin",
)
UNREADABLE = Cause(
    "the writer of the node's status put something other than a device count there",
    "find who last wrote it (kubectl get node NODE -o yaml --show-managed-fields), and at the device plugin's pod",
)
BESIDE = Cause(
    "the node also offers what look like GPUs under another name: perhaps the same GPUs, so that two pods get "
    "one, or undeclared ones",
    "find which device plugins run on the node (kubectl get pods -A -o wide --field-selector "
    "spec.nodeName=NODE); keep one name per GPU",
)
LEFT = Cause(
    "a GPU node left the cluster during the run, unannounced (cordon, an autoscaler's taint)",
    "find who deleted it (kubectl get events -A --field-selector involvedObject.kind=Node), and repeat",
)
MORE = Cause(
    "the node has more devices than declared",
    "correct gpus_per_node, or keep nodes of another size apart",
)


CLOSED = Cause(
    "somebody, or what looks after the nodes, cordoned all of them",
    "look for what did (kubectl describe nodes: taints, annotations), then kubectl uncordon NODE",
)


@subjects.judge
def gpus_as_declared(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge INV-002."""
    declared = str(given.get("gpu_resource") or "nvidia.com/gpu")
    found = node_status.machines(evidence)
    gpu_nodes = list(node_status.gpu_nodes(evidence, declared))
    wanted, origin = _number(given, gpu_nodes, declared)
    required = f"every GPU node offers exactly {wanted} {declared}"
    if wanted == 0:
        return wording.finding(
            Verdict.NOT_APPLICABLE, required, "the profile declares nodes without GPUs (gpus_per_node 0)"
        )
    reported = [m for m in gpu_nodes if m.reported]
    if not found:
        return wording.finding(Verdict.INCONCLUSIVE, required, "no node was seen")
    few = [m for m in reported if m.offers(declared) != (wanted, wanted) and not m.untold(declared)]
    away = {
        m.name: out
        for m in few
        if (out := offer_history.restarting(evidence, m, declared, wanted)) is not None
    }
    short = [m for m in few if m.name not in away]
    stated = wanted if origin == DECLARED else None
    if short:
        return _short(required, short, len(reported), (declared, stated), (wanted, origin))
    odd = offer_history.at_any_time(
        evidence, reported, lambda m: gpu_labels.contradiction(m, declared, stated)
    )
    if odd:
        return _contradicted(required, odd, len(reported), declared)
    dips = offer_history.dips(evidence, declared, wanted)
    if dips:
        return _flapping(required, dips, declared, (wanted, origin))
    open_ = _undecided(evidence, required, (declared, stated, wanted), away, reported)
    if open_ is not None:
        return open_
    if not reported:
        return _none(required, found, declared)
    closed = node_status.none_in_service(reported)
    if closed:
        return wording.finding(
            Verdict.INCONCLUSIVE, required, closed, causes=(CLOSED,), evidence=_keys(reported)
        )
    return wording.finding(
        Verdict.PASS,
        required,
        f"{_count(reported, 'GPU node')} of {len(found)} offer {wanted} {declared}"
        f"{_remarks(evidence, reported, declared, wanted)}"
        f"{_left(found, reported, declared)}",
        evidence=_keys(reported),
        numbers=(Number("GPUs per node", wanted, declared, wanted, origin),),
        facts={"gpu_nodes": len(reported), "nodes": len(found)},
    )


def _undecided(
    evidence: Evidence,
    required: str,
    told: tuple[str, int | None, int],
    away: Mapping[str, Outage],
    reported: list[Machine],
) -> Finding | None:
    """Return why nothing can be said: a node is not back, says nothing, left, or offers what nobody understands."""
    declared, stated, wanted = told
    if away:
        text = f"still restarting: {wording.listed([offer_history.away(out) for out in away.values()])}"
        found = [m for m in reported if m.name in away]
        return wording.finding(Verdict.INCONCLUSIVE, required, text, evidence=_keys(found))
    silent = [m for m in node_status.machines(evidence) if not m.reported]
    if silent:
        return wording.finding(
            Verdict.INCONCLUSIVE,
            required,
            f"{_count(silent)} never reported their devices: {wording.listed([m.name for m in silent])}; the other "
            f"{len(reported)} GPU nodes offer {wanted}",
            where=_where(silent, declared),
            evidence=_keys(silent),
        )

    def untold(machine: Machine) -> str:
        return _untold(machine, declared)

    def beside(machine: Machine) -> str:
        return gpu_labels.beside(machine, declared, stated)

    doubts = [
        *((*one, UNREADABLE) for one in offer_history.at_any_time(evidence, reported, untold)),
        *((*one, BESIDE) for one in offer_history.at_any_time(evidence, reported, beside)),
        *((one.last, offer_history.gone(one), LEFT) for one in offer_history.unexplained(evidence, declared)),
    ]
    if not doubts:
        return None
    return wording.finding(
        Verdict.INCONCLUSIVE,
        required,
        wording.listed([text for _, text, _ in doubts], 4),
        where=_where([m for m, _, _ in doubts], declared),
        causes=tuple(dict.fromkeys(cause for _, _, cause in doubts)),
        evidence=_keys([m for m, _, _ in doubts]),
        repeat=(f"kubectl get node {doubts[0][0].name} -o yaml",),
    )


def _untold(machine: Machine, declared: str) -> str:
    said = machine.untold(declared)
    parts = [f"{value!r} {name}" for name, value in sorted(said.items())]
    return (
        f"{machine.name} offers {wording.listed(parts, 3)}, which is not a number of devices" if parts else ""
    )


DECLARED = "profile: gpus_per_node"
"""Where the number comes from if the profile states it."""


def _number(given: subjects.Given, gpu_nodes: list[Machine], declared: str) -> tuple[int, str]:
    """Return how many GPUs a node must have, and where that comes from.

    Evidence of the suite always says what the profile declares. A recording may not: then what feature discovery
    counts on most nodes, or without it what most nodes have in hardware (capacity), is what all must offer.
    """
    stated = given.get("gpus_per_node")
    if isinstance(stated, int) and not isinstance(stated, bool):
        return stated, DECLARED
    reported = [m for m in gpu_nodes if m.reported]
    labelled = [n for m in reported if (n := labelled_gpus.discovered(m).number(declared)) is not None]
    if labelled:
        return _most(number for number, _ in labelled), "labels of most GPU nodes (none declared)"
    return _most(m.capacity.get(declared, 0) for m in reported), "capacity of most GPU nodes (none declared)"


def _most(numbers: Iterable[int]) -> int:
    counts = Counter(numbers)
    return max(max(counts, key=lambda count: (counts[count], count), default=1), 1)


def _short(
    required: str, short: list[Machine], of: int, told: tuple[str, int | None], number: tuple[int, str]
) -> Finding:
    (declared, stated), (wanted, origin) = told, number
    odd = {m.name: one for m in short if (one := gpu_labels.contradiction(m, declared, stated)) is not None}
    worst = min(short, key=lambda m: m.offers(declared)[1])
    parts = [_told(m, declared, wanted) + (f": {odd[m.name].text}" if m.name in odd else "") for m in short]
    causes: dict[Cause, None] = {}
    for machine in short:
        causes.update(dict.fromkeys(_causes(machine, declared, wanted, odd.get(machine.name))))
    return wording.finding(
        Verdict.FAIL,
        required,
        f"{len(short)} of {_count(range(of), 'GPU node')} do not: {wording.listed(parts)}",
        violation=True,
        where=_where(short, declared),
        causes=tuple(causes),
        evidence=_keys(short),
        numbers=(
            Number(f"GPUs of {worst.name}", worst.offers(declared)[1], declared, wanted, origin),
            Number("nodes that differ", len(short), "nodes", 0, "every GPU node must offer the same"),
        ),
        repeat=(
            f"kubectl describe node {worst.name}",
            f"kubectl get nodes -o '{_columns(declared)}'",
        ),
        facts={"short": {m.name: list(m.offers(declared)) for m in short[:100]}},
    )


def _contradicted(required: str, odd: list[tuple[Machine, Odd]], of: int, declared: str) -> Finding:
    """Return the violation: the number is right, and what is counted are no GPUs of their own."""
    found = [m for m, _ in odd]
    causes = dict.fromkeys(cause for _, one in odd for cause in one.causes)
    return wording.finding(
        Verdict.FAIL,
        required,
        f"{len(odd)} of {_count(range(of), 'GPU node')} do not: "
        f"{wording.listed([f'{m.name}: {one.text}' for m, one in odd], 4)}",
        violation=True,
        where=_where(found, declared),
        causes=tuple(causes),
        evidence=_keys(found),
        repeat=(f"kubectl get node {found[0].name} -o yaml",),
        facts={"odd": {m.name: one.text for m, one in odd[:100]}},
    )


def _flapping(required: str, dips: list[Machine], declared: str, number: tuple[int, str]) -> Finding:
    wanted, origin = number
    worst = min(dips, key=lambda m: m.offers(declared)[1])
    return wording.finding(
        Verdict.FAIL,
        required,
        f"for a time {_count(dips, 'GPU node')} did not: {wording.listed([_told(m, declared, wanted) for m in dips])}",
        violation=True,
        where=_where(dips, declared),
        causes=(offer_history.FLAPS, *_causes(worst, declared, wanted)),
        evidence=_keys(dips),
        numbers=(Number(f"GPUs of {worst.name}", worst.offers(declared)[1], declared, wanted, origin),),
        repeat=(f"kubectl get node {worst.name} -w -o yaml",),
    )


def _none(required: str, found: tuple[Machine, ...], declared: str) -> Finding:
    return wording.finding(
        Verdict.FAIL,
        required,
        f"none of {_count(found)} offers {declared} or any other GPU resource, and no label says that one has GPUs",
        violation=True,
        where=_where(list(found), declared),
        causes=(NO_PLUGIN,),
        evidence=_keys(found),
        repeat=("kubectl describe nodes | grep -A8 ^Capacity",),
    )


def _told(machine: Machine, declared: str, wanted: int) -> str:
    capacity, allocatable = machine.offers(declared)
    text = f"{machine.name} offers {allocatable} of {wanted}"
    if capacity != allocatable:
        text += f" (capacity {capacity})"
    others = machine.other_gpus(declared)
    if others:
        text += f", but {', '.join(f'{count} {name}' for name, count in sorted(others.items()))}"
    elif capacity == 0 and machine.gpu_label:
        text += f" although its label says {machine.gpu_label}"
    return text + (f" [{machine.state}]" if machine.state else "")


def _causes(machine: Machine, declared: str, wanted: int, odd: Odd | None = None) -> list[Cause]:
    capacity, allocatable = machine.offers(declared)
    others = machine.other_gpus(declared)
    causes: list[Cause] = [] if odd is None or capacity < wanted else list(odd.causes)
    if any("/mig-" in name for name in others) or labelled_gpus.discovered(machine).cut:
        causes.append(gpu_labels.MIG)
    if any(name.endswith(labelled_gpus.SHARED) for name in others):
        causes.append(gpu_labels.SHARING)
    if others and not causes:
        near = names.nearest(declared, others) or next(iter(others))
        causes.append(Cause(f"{OTHER_NAME.text}: {near}", OTHER_NAME.fix) if capacity == 0 else OTHER_NAME)
    if capacity > allocatable == 0:
        causes += [PLUGIN_LEFT, UNHEALTHY]
    elif capacity > allocatable:
        causes.append(UNHEALTHY)
    elif capacity == 0 and not others:
        causes.append(NO_PLUGIN)
    elif 0 < capacity < wanted:
        causes.append(FEWER)
    elif capacity > wanted and not causes:
        causes.append(MORE)
    return list(dict.fromkeys(causes))


def _remarks(evidence: Evidence, found: list[Machine], declared: str, wanted: int) -> str:
    """Return what does not decide and should be known: nodes out of service, GPUs that are shared, restarts."""
    remarks = []
    odd = [f"{m.name} is {m.state}" for m in found if m.state]
    if odd:
        remarks.append(wording.listed(odd, 4))
    shared = [m.name for m in found if labelled_gpus.discovered(m).sharing]
    if shared:
        remarks.append(f"labels show shared GPUs on {wording.listed(shared, 4)}")
    back = [
        *offer_history.restarts(evidence, found, declared, wanted),
        *offer_history.explained(evidence, declared),
    ]
    if back:
        remarks.append(wording.listed(back, 4))
    return f"; {'; '.join(remarks)}" if remarks else ""


def _left(found: Sequence[Machine], gpu_nodes: Sequence[Machine], declared: str) -> str:
    """Return the nodes on which the resource stayed behind with 0.

    Nothing else says that they have GPUs: 0 counts as absent.
    """
    others = {m.name for m in gpu_nodes}
    empty = [m.name for m in found if declared in m.capacity and m.name not in others]
    return (
        f"; {wording.listed(empty, 4)} once had a device plugin and offers 0, which counts as none"
        if empty
        else ""
    )


def _count(found: Sized, what: str = "node") -> str:
    return wording.count(len(found), what)


def _where(found: list[Machine], declared: str) -> tuple[str, ...]:
    return wording.shown(
        [
            f"Node/{m.name}: {m.offers(declared)[1]} of {m.offers(declared)[0]} {declared}"
            + (f" ({m.state})" if m.state else "")
            for m in found
        ]
    )


def _keys(found: Sequence[Machine]) -> tuple[str, ...]:
    return tuple(m.line.key for m in found[: wording.MANY])


def _columns(resource: str) -> str:
    """Return columns of kubectl that show a resource of nodes; a shell must not take the backslashes."""
    escaped = resource.replace(".", "\\.")
    return f"custom-columns=NAME:.metadata.name,GPUS:.status.allocatable.{escaped}"


def nodes_listed(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the list of nodes was whole when it was looked at."""
    del given
    name = "the nodes were listed"
    found = node_status.machines(evidence)
    if not node_status.listed(evidence, "Node"):
        return wording.presupposed(name, held=None, observed="the watch of nodes was not in sync at the end")
    if not found:
        return wording.presupposed(name, held=None, observed="no node was seen")
    return wording.presupposed(name, held=True, observed=f"{len(found)} nodes", evidence=_keys(found[:2]))


def gpu_nodes_report(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether every GPU node's kubelet reports, so that what it offers is not stale.

    A node that is cordoned as well was taken out of service by decision; it is named, and keeps no row from deciding.
    """
    name = "the GPU nodes report"
    declared = str(given.get("gpu_resource") or "nvidia.com/gpu")
    gpu_nodes = node_status.gpu_nodes(evidence, declared)
    stale = [m for m in gpu_nodes if m.ready is False and not m.cordoned]
    if stale:
        return wording.presupposed(
            name,
            held=False,
            observed=(
                f"{_count(stale)} not Ready, so the reported devices are stale: "
                f"{wording.listed([m.name for m in stale])}"
            ),
            causes=(
                Cause(
                    "the node's kubelet does not report",
                    "bring the node back, or cordon it while it is repaired (kubectl cordon NODE)",
                ),
            ),
            evidence=_keys(stale),
        )
    return wording.presupposed(
        name, held=True, observed=f"{_count(gpu_nodes)} with GPUs report", evidence=_keys(gpu_nodes[:2])
    )
