"""INV-003: every GPU node offers exactly the declared number of the declared RDMA resource.

Too many are as wrong as too few: a plugin that counts shares in place of adapters, or one that runs twice, lets pods
start that find no adapter of their own. A NetworkAttachmentDefinition that brings adapters must name the same resource:
it is what pods ask for.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import network_definitions, node_status, outages
from pytest_gpucluster.evidence.objects.node_status import Machine
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.inventory import adapter_names, offer_history
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number

LEFT = Cause(
    "the RDMA device plugin is gone, or it calls its devices unhealthy",
    "look at the plugin's pod on the node (kubectl get pods -A -o wide --field-selector spec.nodeName=NODE) and at its "
    "log; a port that is down makes some plugins call its device unhealthy",
)
ABSENT = Cause(
    "no RDMA device plugin is registered with the node's kubelet, or its selectors (vendor, device id, interface, link "
    "type) match no adapter of the node",
    "compare the plugin's ConfigMap with `ibv_devices` and `lspci -nn` on the node; a node that was added later may "
    "have other adapters",
)
FEWER = Cause(
    "the plugin finds fewer adapters or functions than on the other nodes: one fell off the bus, is bound to another "
    "driver, or fewer virtual functions were made",
    "compare `lspci -nn` and /sys/class/infiniband on this node and on another one; look at numVfs of the SR-IOV "
    "policy",
)
FEW_EVERYWHERE = Cause(
    "no GPU node has as many as declared: the profile declares too many, or the plugin's selectors leave out adapters "
    "of all of them",
    "compare /sys/class/infiniband on a node with the plugin's ConfigMap; correct rdma.per_node if the nodes have no "
    "more",
)
WRITTEN = Cause(
    "something other than the kubelet wrote the node's status: a kubelet never offers more than there are",
    "find who last wrote it (kubectl get node NODE -o yaml --show-managed-fields)",
)
MORE = Cause(
    "the plugin counts other things than declared: shares of an adapter (rdmaHcaMax), virtual functions, or adapters "
    "of storage and management too; or two plugins offer the same name",
    "correct rdma.per_node if it is what you want, else the plugin's selectors, rdmaHcaMax or numVfs",
)
OTHER_NAME = Cause(
    "the node offers adapters under another resource name",
    "set rdma.resource in the profile to the name that training pods ask for, or rename it in the plugin's "
    "configuration",
)
UNREADABLE = Cause(
    "the writer of the node's status put something other than a device count there",
    "find who last wrote it (kubectl get node NODE -o yaml --show-managed-fields)",
)
GONE = Cause(
    "a GPU node left the cluster during the run, unannounced",
    "find who deleted it (kubectl get events -A --field-selector involvedObject.kind=Node), and repeat",
)
NAMED_OTHERWISE = Cause(
    "the network brings devices of another resource than the one that pods ask for: such a pod gets an interface "
    "without the adapter behind it, or waits for a resource that no node has",
    "write the declared resource into the annotation k8s.v1.cni.cncf.io/resourceName of the "
    "NetworkAttachmentDefinition, or declare the other one",
)
NO_NETWORK = Cause(
    "there is no such NetworkAttachmentDefinition, or Multus is not installed",
    "kubectl get network-attachment-definitions -A; correct rdma.networks in the profile, or create it",
)
UNANSWERED = Cause(
    "the API server gave no answer to the question for NetworkAttachmentDefinitions, or an error of its own",
    "look at the answer in the evidence, and repeat",
)
FORBIDDEN = Cause(
    "the user of the run may not read NetworkAttachmentDefinitions",
    "grant get on network-attachment-definitions (gpucluster rbac prints the role)",
)


@dataclasses.dataclass(frozen=True)
class Declared:
    """What the profile declares.

    Attributes:
        resource: name of the resource.
        count: how many each GPU node offers.
        networks: NetworkAttachmentDefinitions that bring it.
        gpus: name of the GPU resource, by which GPU nodes are known.
    """

    resource: str
    count: int
    networks: tuple[str, ...]
    gpus: str

    @property
    def required(self) -> str:
        """Return what must hold."""
        return f"every GPU node offers exactly {self.count} {self.resource}"


@subjects.judge
def rdma_as_declared(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge INV-003."""
    told = fields.sub(given, "rdma")
    count = subjects.count(told, "per_node")
    if "rdma" not in given or (told and (not count or not told.get("resource"))):
        text = "the evidence does not say what the profile declares of RDMA devices"
        return wording.Findings("every GPU node offers the declared RDMA resource").inconclusive(text)
    if not told:
        text = "the profile declares no RDMA resource (rdma.resource)"
        return wording.Findings("every GPU node offers the declared RDMA resource").not_applicable(text)
    networks = tuple(str(one) for one in told.get("networks") or ())
    gpus = str(given.get("gpu_resource") or "nvidia.com/gpu")
    declared = Declared(str(told["resource"]), count or 0, networks, gpus)
    nodes = node_status.gpu_nodes(evidence, gpus)
    found = wording.Findings(
        declared.required,
        evidence=tuple(machine.line.key for machine in nodes[: wording.MANY]),
        repeat=("kubectl describe nodes | grep -A12 ^Allocatable",),
    )
    return (
        _other_number(evidence, declared, nodes, found)
        or _other_network(evidence, declared, found)
        or _undecided(evidence, declared, nodes, found)
        or found.passed(
            f"{wording.count(len(nodes), 'GPU node')} offer {declared.count} {declared.resource}"
            f"{_networks(evidence, declared)}{_remarks(evidence, declared, nodes)}",
            numbers=(_number(declared, "RDMA devices per node", declared.count),),
            facts={"gpu_nodes": len(nodes)},
        )
    )


def _number(declared: Declared, name: str, count: int) -> Number:
    return Number(name, count, declared.resource, declared.count, "profile: rdma.per_node")


def _other_number(
    evidence: Evidence, declared: Declared, nodes: Sequence[Machine], found: wording.Findings
) -> Finding | None:
    """Return the violation: a GPU node offers, or offered for a time, another number."""
    odd = [state for machine in nodes for state in _odd(evidence, declared, machine)[:1]]
    left = {out.last.name: out.last for out in _left(evidence, declared)}
    odd += [state for machine in left.values() for state in _odd(evidence, declared, machine)[:1]]
    if not odd:
        return None
    worst = odd[0]
    right = any(m.offers(declared.resource)[1] == declared.count for m in nodes)
    causes = dict.fromkeys(cause for machine in odd for cause in _causes(evidence, declared, machine, right))
    return found.fail(
        f"{len(odd)} of {wording.count(len({*left} | {m.name for m in nodes}), 'GPU node')} do not: "
        f"{wording.listed([_offers(evidence, declared, machine) for machine in odd], 4)}",
        violation=True,
        causes=tuple(causes),
        where=wording.shown([f"Node/{machine.name}" for machine in odd]),
        evidence=tuple(machine.line.key for machine in odd[: wording.MANY]),
        numbers=(_number(declared, f"RDMA devices of {worst.name}", worst.offers(declared.resource)[1]),),
        repeat=(f"kubectl get node {worst.name} -o yaml",),
    )


def _odd(evidence: Evidence, declared: Declared, machine: Machine) -> list[Machine]:
    """Return a node as it was each time that it offered another number, the last time first; restarts are none."""
    return [
        state
        for state in reversed(node_status.states(evidence, machine.name))
        if state.reported
        and declared.resource not in state.unreadable
        and state.offers(declared.resource) != (declared.count, declared.count)
        and outages.restart_of(evidence, state, declared.resource, declared.count) is None
    ]


def _left(evidence: Evidence, declared: Declared) -> list[node_status.Absence]:
    """Return the GPU nodes that left unannounced."""
    return offer_history.unexplained(evidence, declared.gpus)


def _offers(evidence: Evidence, declared: Declared, machine: Machine) -> str:
    capacity, offered = machine.offers(declared.resource)
    text = f"{machine.name} offers {offered} of {declared.count}"
    if capacity != offered:
        text += f" (capacity {capacity})"
    others = adapter_names.beside(machine, declared.resource)
    if others and not capacity:
        text += f", but {wording.listed([f'{count} {name}' for name, count in others.items()], 3)}"
    last = next((m for m in node_status.machines(evidence) if m.name == machine.name), None)
    if last is not None and last.offers(declared.resource) == (declared.count, declared.count):
        text += f" for a time (at t={machine.line.t:.0f} s)"
    return text + (f" [{machine.state}]" if machine.state else "")


def _causes(evidence: Evidence, declared: Declared, machine: Machine, right: bool) -> Iterator[Cause]:
    """Yield why a node offers another number; `right` says whether another node offers the declared one."""
    capacity, offered = machine.offers(declared.resource)
    others = adapter_names.beside(machine, declared.resource)
    if offered > capacity:
        yield WRITTEN
        return
    if offered > declared.count or capacity > declared.count:
        yield MORE
    elif capacity > offered:
        yield LEFT
    elif capacity:
        yield FEWER if right else FEW_EVERYWHERE
    elif others:
        near = names.nearest(declared.resource, others) or next(iter(others))
        yield Cause(f"{OTHER_NAME.text}: {near}", OTHER_NAME.fix)
    else:
        yield ABSENT
    if any(state.offers(declared.resource)[1] for state in node_status.states(evidence, machine.name)):
        if capacity > declared.count or offered > declared.count:
            return
        if not offered and capacity == 0:
            yield LEFT


def _other_network(evidence: Evidence, declared: Declared, found: wording.Findings) -> Finding | None:
    """Return the violation: a declared network is not there, or brings another resource."""
    read = network_definitions.read(evidence)
    wrong: list[tuple[network_definitions.Definition, str, Cause]] = []
    for name in declared.networks:
        one = read.get(name)
        if one is not None and one.code == 404:
            wrong.append((one, f"there is no NetworkAttachmentDefinition {name}", NO_NETWORK))
        elif one is not None and one.ok and one.resource not in ("", declared.resource):
            text = f"NetworkAttachmentDefinition {name} names {one.resource}"
            wrong.append((one, text, NAMED_OTHERWISE))
    if not wrong:
        return None
    return found.fail(
        f"{wording.listed([text for _, text, _ in wrong], 4)}; declared is {declared.resource}",
        violation=True,
        causes=tuple(dict.fromkeys(cause for _, _, cause in wrong)),
        where=wording.shown([f"NetworkAttachmentDefinition/{one.name}" for one, _, _ in wrong]),
        evidence=tuple(one.key for one, _, _ in wrong),
        repeat=("kubectl get network-attachment-definitions -A -o yaml",),
    )


def _undecided(
    evidence: Evidence, declared: Declared, nodes: Sequence[Machine], found: wording.Findings
) -> Finding | None:
    """Return why nothing can be said: nodes that say nothing or left, networks that were not read."""
    if not nodes:
        return found.inconclusive("no GPU node was seen")
    away = [
        offer_history.away(out)
        for machine in nodes
        if (out := offer_history.restarting(evidence, machine, declared.resource, declared.count)) is not None
        and machine.offers(declared.resource) != (declared.count, declared.count)
    ]
    mute = [machine.name for machine in nodes if not machine.reported]
    unread = [
        f"{state.name} offers {state.unreadable[declared.resource]!r}, which is not a number of devices"
        for machine in nodes
        for state in node_status.states(evidence, machine.name)
        if declared.resource in state.unreadable
    ]
    gone = [offer_history.gone(one) for one in _left(evidence, declared)]
    networks = network_definitions.read(evidence)
    hidden = [
        f"NetworkAttachmentDefinition {name} was not read"
        for name in declared.networks
        if name not in networks or not networks[name].ok
    ]
    silent = [f"{wording.listed(mute, 4)} never reported their devices"] if mute else []
    texts = [*away, *silent, *dict.fromkeys(unread), *gone, *hidden]
    if texts:
        causes = (
            *([UNREADABLE] if unread else []),
            *([GONE] if gone else []),
            *_unread(declared, networks),
        )
        return found.inconclusive(wording.listed(texts, 4), causes=causes)
    closed = node_status.none_in_service(nodes)
    return found.inconclusive(closed) if closed else None


def _unread(declared: Declared, networks: Mapping[str, network_definitions.Definition]) -> Iterator[Cause]:
    """Yield why networks were not read: as the API server answered; nothing of those that nobody asked for."""
    codes = {networks[name].code for name in declared.networks if name in networks and not networks[name].ok}
    if codes & {401, 403}:
        yield FORBIDDEN
    if codes - {401, 403}:
        yield UNANSWERED


def _networks(evidence: Evidence, declared: Declared) -> str:
    """Return what the declared networks say of the resource."""
    read = network_definitions.read(evidence)
    naming = [name for name in declared.networks if read[name].resource]
    others = [name for name in declared.networks if not read[name].resource]
    text = f"; {wording.listed(naming, 4)} name it" if naming else ""
    if others:
        text += f"; {wording.listed(others, 4)} name no resource: pods must ask for it themselves"
    return text


def _remarks(evidence: Evidence, declared: Declared, nodes: Sequence[Machine]) -> str:
    """Return what does not decide and should be known."""
    own = {machine.name for machine in nodes}
    beside = sorted(
        {
            f"{count} {name}"
            for m in nodes
            for name, count in adapter_names.beside(m, declared.resource).items()
        }
    )
    others = [
        machine.name
        for machine in node_status.machines(evidence)
        if machine.name not in own and machine.offers(declared.resource)[1]
    ]
    text = f"; beside it nodes offer {wording.listed(beside, 3)}" if beside else ""
    if others:
        text += f"; {wording.listed(others, 4)} have no GPUs and offer it too"
    odd = [f"{machine.name} is {machine.state}" for machine in nodes if machine.state]
    return text + (f"; {wording.listed(odd, 4)}" if odd else "")
