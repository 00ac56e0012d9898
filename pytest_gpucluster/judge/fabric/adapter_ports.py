"""FAB-007: a pod that asks for RDMA devices can open them, and their ports are up at the declared rate."""

from collections.abc import Iterator, Sequence

from pytest_gpucluster.evidence.hardware import adapters
from pytest_gpucluster.evidence.hardware.adapters import Adapter, Port, View
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.measure import samples
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed

REQUIRED = (
    "a pod on each GPU node opens every RDMA device that it is given, and each has an active port as declared"
)

NOT_GIVEN = Cause(
    "the device plugin granted the resource and put no device file into the container",
    "look at the plugin's log on the node, at its selectors, and whether its mode (shared, SR-IOV) fits the network",
)
CLOSED = Cause(
    "the device file is there and the container's device cgroup does not admit it",
    "restart the RDMA device plugin on the node, and look at `ls -l /dev/infiniband` in the pod and on the node",
)
NO_RIGHT = Cause(
    "the mode of the device file, or a security module of the node, keeps the pod's user from it",
    "look at `ls -l /dev/infiniband` in the pod: the mode must be 0666, or the pod must run as the file's user or "
    "group; then at the node's audit log (SELinux, AppArmor)",
)
MADE_ANEW = Cause(
    "no device stands behind the file any more: the driver's device was removed, or made anew under another number",
    "compare `ls -l /dev/infiniband` in the pod and on the node, look at dmesg, restart the RDMA device plugin on the "
    "node and delete the pod",
)
ANSWERS_NOT = Cause(
    "the driver refuses to open the device",
    "look at dmesg on the node for the adapter's driver, and at `ibv_devinfo` there",
)
OF_OPENING = {
    "Operation not permitted": CLOSED,
    "Permission denied": NO_RIGHT,
    "No such device or address": MADE_ANEW,
    "No such device": MADE_ANEW,
    "No such file or directory": MADE_ANEW,
}
"""What opening a device file answers -> why."""
HIDDEN = Cause(
    "one candidate: the adapter is in another network namespace than the pod (RDMA subsystem in exclusive mode), so "
    "that the pod has its device file and not the adapter",
    "rdma system show on the node says which mode it has; let the CNI move the adapter into the pod (rdma-cni), or set "
    "the mode to shared",
)
CABLE = Cause(
    "the link is physically down: cable, transceiver, switch port, or the interface of the host is down",
    "look at `ibstat` and `mlxlink -d DEVICE` (or `ethtool IF`) on the node, and at the port of the switch",
)
NO_MANAGER = Cause(
    "one candidate: no subnet manager configures this port (it stays INIT until one does)",
    "sminfo and saquery on the node say whether one answers; look at OpenSM or UFM, if other ports of the same fabric "
    "wait too",
)
PARTITION = Cause(
    "another candidate: the subnet manager leaves this port out, by its partitions or because the node is not in its "
    "list",
    "look at the manager's log for the port's GUID",
)
NOT_UP = Cause(
    "the port is linked and not active: the driver, the firmware, or the interface of the host is not up",
    "look at `ip link` and dmesg on the node",
)
OTHER_RATE = Cause(
    "the link trained at another speed or width: cable, transceiver, a switch port that is set to less, a splitter; or "
    "the declared rate is that of other adapters",
    "compare `ibstat` and `mlxlink` with a port that is right; correct rdma.port_gbps if all have this rate",
)
OTHER_LAYER = Cause(
    "the port runs another link layer than declared",
    "mlxconfig -d DEVICE query LINK_TYPE_P1 on the node; set it to the fabric's and reset the adapter",
)
LOST = Cause(
    "files of sysfs were gone while they were read: the adapter was reset, removed or moved to another namespace",
    "look at dmesg on the node, and repeat",
)

Wrong = tuple[View, str, tuple[Cause, ...], str]
"""Whose it is, what is wrong, why, and the key of the line."""


@subjects.judge
def open_and_active(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-007."""
    told = fields.sub(given, "rdma")
    found = wording.Findings(REQUIRED)
    tried = given.get("tried")
    if not isinstance(tried, Sequence) or isinstance(tried, str) or not told:
        return found.inconclusive("the evidence does not say what is declared and which nodes were tried")
    uids = frozenset(
        uid for kind, _, uid in subjects.roles(evidence, given).get("subject", ()) if kind == "Pod"
    )
    views = adapters.views(evidence, uids)
    keys = tuple(view.key for view in views if view.key)[: wording.MANY]
    found = wording.Findings(REQUIRED, evidence=keys, where=wording.shown([view.pod.where for view in views]))
    wrong = [one for view in views for one in _wrong(view, told)]
    if wrong:
        return found.fail(
            wording.listed([text for _, text, _, _ in wrong], 4),
            violation=True,
            causes=tuple(dict.fromkeys(cause for _, _, causes, _ in wrong for cause in causes)),
            where=wording.shown(list(dict.fromkeys(view.pod.where for view, _, _, _ in wrong))),
            evidence=tuple(dict.fromkeys(key for *_, key in wrong if key))[: wording.MANY],
            numbers=_numbers(views, told),
        )
    open_ = list(_open(views, list(map(str, tried)), told))
    if open_:
        lost = any(one.lost for view in views for one in view.given)
        causes = (
            *([LOST] if lost else []),
            *((HIDDEN, MADE_ANEW) if any(view.files and not view.missing for view in views) else ()),
        )
        return found.inconclusive(wording.listed(open_, 4), causes=causes, numbers=_numbers(views, told))
    count = sum(len(view.given) for view in views)
    rate = samples.number(told.get("port_gbps"))
    speed = f"at {rate:g} Gbit/s" if rate is not None else "(no rate is declared: rdma.port_gbps)"
    text = f"{wording.count(count, 'adapter')} on {wording.count(len(views), 'node')} open, their ports active {speed}"
    return found.passed(text + _idle(views), numbers=_numbers(views, told))


def _wrong(view: View, told: fields.Object) -> Iterator[Wrong]:
    """Yield what is wrong with the adapters that a pod was given."""
    if view.told and not (view.given or view.missing or view.twice or view.files):
        listed = (
            f"; it sees {wording.listed([one.name for one in view.adapters], 4)}" if view.adapters else ""
        )
        yield view, f"{view.pod.where} has no RDMA device file{listed}", (NOT_GIVEN,), view.key
    for one in (one for one in view.given if one.name not in view.twice):
        if not one.opens:
            yield (
                view,
                f"{one.file} ({one.name}) on {view.pod.node} does not open: {one.why}",
                (OF_OPENING.get(one.why, ANSWERS_NOT),),
                one.key,
            )
        for text, causes in _of_ports(one, told):
            yield view, f"{one.name} on {view.pod.node}: {text}", causes, one.key


def _of_ports(one: Adapter, told: fields.Object) -> Iterator[tuple[str, tuple[Cause, ...]]]:
    """Yield what is wrong with the ports of an adapter: one active port is enough, each active one is as declared."""
    readable = [port for port in one.ports if port.state]
    active = [port for port in readable if port.state == adapters.ACTIVE]
    if readable and not active and len(readable) == len(one.ports):
        port = readable[0]
        yield (
            f"port {port.number} is {port.state} ({port.physical or 'physical state unknown'})",
            _causes(port),
        )
    rate, layer = samples.number(told.get("port_gbps")), str(told.get("link_layer") or "")
    for port in active:
        if rate is not None and port.gbps is not None and port.gbps != rate:
            yield f"port {port.number} runs at {port.gbps:g} Gbit/s; declared is {rate:g}", (OTHER_RATE,)
        if layer and port.layer and port.layer != layer:
            yield f"port {port.number} is {port.layer}; declared is {layer}", (OTHER_LAYER,)


def _causes(port: Port) -> tuple[Cause, ...]:
    """Return why a port is not active: only its own words tell the causes apart."""
    if port.physical and port.physical != adapters.UP:
        return (CABLE,)
    if port.layer == "InfiniBand" and port.physical == adapters.UP and port.state in ("INIT", "ARMED"):
        return (NO_MANAGER, PARTITION)
    return (NOT_UP, CABLE)


def _open(views: Sequence[View], tried: Sequence[str], told: fields.Object) -> Iterator[str]:
    """Yield what is missing for a pass."""
    if not tried:
        yield "no GPU node takes a pod that asks for the resource"
    seen = {view.pod.node for view in views if view.told}
    silent = [name for name in tried if name not in seen]
    if silent:
        yield f"no pod told the adapters of {wording.listed(silent, 4)}"
    rate, layer = samples.number(told.get("port_gbps")), str(told.get("link_layer") or "")
    for view in views:
        if view.missing:
            yield f"{view.pod.where} named {wording.listed(view.missing, 4)} and did not tell them"
        if view.twice:
            yield f"{view.pod.where} told {wording.listed(view.twice, 4)} twice, each time otherwise"
        if view.files and not view.missing:
            yield f"{view.pod.where} has {wording.listed(view.files, 4)} and sees no adapter that they belong to"
        for one in view.given:
            if one.lost:
                yield f"{one.name} on {view.pod.node}: {one.lost[0]}"
            elif not one.ports:
                yield f"{one.name} on {view.pod.node} shows no port"
            for port in one.ports:
                if port.state == adapters.ACTIVE and port.physical not in ("", adapters.UP):
                    yield f"{one.name} on {view.pod.node}: port {port.number} is ACTIVE and {port.physical}"
                if port.state == adapters.ACTIVE and (
                    (rate is not None and port.gbps is None) or (layer and not port.layer)
                ):
                    yield f"{one.name} on {view.pod.node}: rate or link layer of port {port.number} is not known"
                elif not port.state and not one.lost:
                    yield f"{one.name} on {view.pod.node}: the state of port {port.number} is not known"


def _idle(views: Sequence[View]) -> str:
    """Return the ports that are not used beside an active one."""
    idle = [
        f"{one.name} port {port.number} on {view.pod.node} is {port.state}"
        for view in views
        for one in view.given
        for port in one.ports
        if port.state != adapters.ACTIVE
    ]
    return f"; {wording.listed(idle, 4)}" if idle else ""


def _numbers(views: Sequence[View], told: fields.Object) -> tuple[Number, ...]:
    rate = samples.number(told.get("port_gbps"))
    rates = [
        port.gbps for view in views for one in view.given for port in one.ports
        if port.state == adapters.ACTIVE and port.gbps is not None
    ]  # fmt: skip
    if not rates:
        return ()
    return (Number("slowest active port", min(rates), "Gbit/s", rate, "profile: rdma.port_gbps"),)


def node_tried(_evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether there was a node to try."""
    name = "a GPU node had an RDMA device free"
    chosen = given.get("tried")
    if not isinstance(chosen, list | tuple):
        return wording.presupposed(name, held=True, observed="a recording")
    if not chosen:
        cause = Cause(
            "no GPU node that takes pods offers the declared resource",
            "see INV-003; if all of it is in use, run this row when some is free",
        )
        return wording.presupposed(name, held=False, observed="no node offers the resource", causes=(cause,))
    return wording.presupposed(name, held=True, observed=wording.listed(list(map(str, chosen)), 4))
