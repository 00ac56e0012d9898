"""INV-004: every GPU node carries the declared labels of its place in the network."""

from collections.abc import Mapping, Sequence

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import network_places, node_status
from pytest_gpucluster.evidence.objects.network_places import Levels
from pytest_gpucluster.evidence.objects.node_status import Machine
from pytest_gpucluster.judge import declared_topology, subjects, wording
from pytest_gpucluster.judge.inventory import offer_history
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number

MISSING = Cause(
    "nothing labels the node: what discovers the topology does not run there, or does not know the node",
    "run it there or label the node by hand (kubectl label node NODE KEY=VALUE); schedulers leave a node without these "
    "labels out of every domain, or stop at it",
)
MISNAMED = Cause(
    "nodes carry the level under another key than the profile declares",
    "correct `topology.levels` in the profile, or what labels the nodes",
)
CHANGING = Cause(
    "labels come and go: the node was registered anew, or two writers disagree",
    "find who writes the label (kubectl get node NODE -o yaml --show-managed-fields)",
)


@subjects.judge
def labels_carried(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge INV-004."""
    known = declared_topology.levels(
        given, "every GPU node carries the declared labels of its place in the network"
    )
    if isinstance(known, Finding):
        return known
    return _judge(evidence, given, known)


def _judge(evidence: Evidence, given: subjects.Given, known: Levels) -> Finding:
    resource = str(given.get("gpu_resource") or "nvidia.com/gpu")
    found = node_status.gpu_nodes(evidence, resource)
    label = " ".join(f"-L {one}" for one in known.labels)
    of = wording.Findings(
        f"every GPU node carries {wording.listed(known.labels)}, each with a value",
        evidence=tuple(machine.line.key for machine in found)[: wording.MANY],
        repeat=(f"kubectl get nodes {label}",),
    )
    if not found:
        return of.inconclusive("no GPU node was seen")
    lacking = {machine.name: missing for machine in found if (missing := known.lacking(machine.labels))}
    if lacking:
        bad = [machine for machine in found if machine.name in lacking]
        near = _misnamed(evidence, known, bad)
        told = [f"{name} lacks {wording.listed(missing, 3)}" for name, missing in lacking.items()]
        return of.fail(
            f"{wording.listed(told, 4)}; {wording.count(len(found) - len(bad), 'GPU node')} of {len(found)} "
            f"{'carries' if len(found) - len(bad) == 1 else 'carry'} all levels{near}",
            violation=True,
            causes=(MISNAMED, MISSING) if near else (MISSING,),
            where=wording.shown([f"Node/{machine.name}" for machine in bad]),
            evidence=tuple(machine.line.key for machine in bad)[: wording.MANY],
            numbers=(Number("nodes without a level's label", len(bad), "nodes", 0, "profile"),),
        )
    moved = [text for machine in found if (text := _moved(evidence, known, machine))]
    left = offer_history.unexplained(evidence, resource)
    if moved or left:
        told = [*moved, *(offer_history.gone(one) for one in left)]
        return of.inconclusive(wording.listed(told, 4), causes=(CHANGING,) if moved else ())
    counts = {level: len(network_places.domains(found, known, level)) for level in known.labels}
    told = [f"{wording.count(number, 'domain')} of {level}" for level, number in counts.items()]
    return of.passed(
        f"{wording.count(len(found), 'GPU node')}, all with a place: {wording.listed(told)}"
        f"{_ambiguous(found, known)}{_unused(counts, known)}",
        numbers=(Number("nodes without a level's label", 0, "nodes", 0, "profile"),),
        facts={"domains": counts},
    )


def _misnamed(evidence: Evidence, known: Levels, bad: Sequence[Machine]) -> str:
    """Say which other label of theirs is like a missing one, if no node at all carries the declared one."""
    every = node_status.machines(evidence)
    for level in known.labels:
        if any(network_places.value(machine.labels, level) for machine in every):
            continue
        others = sorted({str(label) for machine in bad for label in machine.labels} - set(known.labels))
        like = names.nearest(level, others)
        if like:
            return f"; no node carries {level} (did you mean {like!r}?)"
    return ""


def _moved(evidence: Evidence, known: Levels, machine: Machine) -> str:
    """Say that a node had another place, or none, at another time of the evidence; "" where it stayed in its place."""
    places: list[tuple[float, Mapping[str, str]]] = []
    for state in node_status.states(evidence, machine.name):
        place = {level: network_places.value(state.labels, level) for level in known.labels}
        if not places or places[-1][1] != place:
            places.append((state.line.t, place))
    if len(places) < 2:
        return ""
    (_, before), (t, after) = places[-2:]
    changed = [f"{level} from {before[level] or 'nothing'} to {after[level]}" for level in known.labels
               if before[level] != after[level]]  # fmt: skip
    return f"{machine.name} changed {wording.listed(changed, 2)} at t={t:.2f} s"


def _ambiguous(found: Sequence[Machine], known: Levels) -> str:
    """Say that one value of a level stands in several domains: who reads that label alone takes them for one."""
    for depth, level in enumerate(known.labels):
        above: dict[str, set[tuple[str, ...]]] = {}
        for domain in network_places.domains(found, known, level):
            above.setdefault(domain[depth], set()).add(domain[:depth])
        twice = sorted(value for value, places in above.items() if len(places) > 1)
        if twice:
            coarser = f"{len(above[twice[0]])} domains of {known.labels[depth - 1]}"
            return f"; {level}={twice[0]} stands in {coarser}: who reads this label alone takes them for one"
    return ""


def _unused(counts: Mapping[str, int], known: Levels) -> str:
    """Say that the required level has one domain: it constrains nothing."""
    alone = known.required in counts and counts[known.required] == 1
    return (
        f"; all of them are in one domain of {known.required}: requiring it constrains nothing"
        if alone
        else ""
    )
