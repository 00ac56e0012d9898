"""NetworkPolicies between members: who lets whom in, who lets what out."""

from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Line
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.plain import selectors

DNS = "53"


def shut_in(s: Situation, master: PodStory | None, port: str) -> str:
    """Return a NetworkPolicy that selects a pod and lets no other member in to a port, or ""."""
    if master is None:
        return ""
    peers = [p for p in s.pods if p.name != master.name]
    selecting = _selecting(s, master, "Ingress")
    if not selecting or not peers:
        return ""
    for line in selecting:
        for rule in fields.items(line.object, "spec", "ingress"):
            if _on_port(rule, port) and _admits(rule, "from", peers):
                return ""
    return selecting[0].name


def shut_out(s: Situation, client: PodStory | None, target: PodStory | None, port: str) -> str:
    """Return a NetworkPolicy that selects a pod and lets it reach no port of that number at another, or "".

    Args:
        s: the situation.
        client: the pod that asks.
        target: the pod that is asked; None for one that is not known, such as a name server.
        port: the port, "" for any.
    """
    selecting = _selecting(s, client, "Egress") if client is not None else []
    for line in selecting:
        for rule in fields.items(line.object, "spec", "egress"):
            if _on_port(rule, port) and (target is None or _admits(rule, "to", [target])):
                if target is None and port and not _elsewhere(rule):
                    continue  # pods of this namespace only: no name server is among them
                return ""
    return selecting[0].name if selecting else ""


def _selecting(s: Situation, pod: PodStory, direction: str) -> list[Line]:
    found = []
    for line in s.objects("NetworkPolicy", s.namespace):
        spec = fields.sub(line.object, "spec")
        told = spec.get("policyTypes")
        default = ["Ingress", *(["Egress"] if "egress" in spec else [])]
        types = told if isinstance(told, list | tuple) and told else default
        if direction in types and matches(fields.sub(spec, "podSelector"), pod):
            found.append(line)
    return found


def _admits(rule: fields.Object, side: str, pods: list[PodStory]) -> bool:
    peers = fields.items(rule, side)
    return not peers or any(_names(peer, pods) for peer in peers)


def _names(peer: fields.Object, pods: list[PodStory]) -> bool:
    if "ipBlock" in peer or "namespaceSelector" in peer:
        return True  # cannot be told from here: do not accuse
    return any(matches(fields.sub(peer, "podSelector"), p) for p in pods)


def _elsewhere(rule: fields.Object) -> bool:
    """Report whether a rule leads out of the namespace."""
    peers = fields.items(rule, "to")
    return not peers or any("ipBlock" in peer or "namespaceSelector" in peer for peer in peers)


def _on_port(rule: fields.Object, port: str) -> bool:
    ports = fields.items(rule, "ports")
    if not ports or not port.isdigit():
        return True
    for one in ports:
        first, last = str(one.get("port")), str(one.get("endPort") or one.get("port"))
        # No port is every port; a named one cannot be told from here.
        if not first.isdigit() or not last.isdigit() or int(first) <= int(port) <= int(last):
            return True
    return False


def matches(selector: fields.Object, pod: PodStory) -> bool:
    """Report whether a label selector selects a pod; one that cannot be read selects none."""
    try:
        return selectors.matches_labels(selector, {str(k): str(v) for k, v in pod.labels.items()})
    except (selectors.SelectorError, KeyError, TypeError, AttributeError):
        return False
