"""Further networks of a pod: what its annotation asks for, and what is told of what it got (as Multus does both)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_gpucluster.node.api import Api

Object = dict[str, Any]

ASKED = "k8s.v1.cni.cncf.io/networks"
TOLD = "k8s.v1.cni.cncf.io/network-status"


class AttachmentError(Exception):
    """A wish for a network that cannot be met; the text is one clear line."""


@dataclass(frozen=True)
class Attachment:
    """One further network that a pod asks for.

    Attributes:
        network: its name, with the namespace of its definition.
        interface: the name that the interface gets in the pod.
    """

    network: str
    interface: str


@dataclass(frozen=True)
class Interface:
    """One interface that a pod got."""

    attachment: Attachment
    ip: str
    mac: str


def wanted(pod: Object, known: Sequence[str]) -> tuple[Attachment, ...]:
    """Return the networks that a pod's annotation asks for: `[NAMESPACE/]NAME[@INTERFACE], ...`, or the same as JSON.

    Args:
        pod: the pod.
        known: names of the networks that the nodes have.

    Raises:
        AttachmentError: the annotation cannot be read, or names a network that there is not.
    """
    meta = pod["metadata"]
    text = str((meta.get("annotations") or {}).get(ASKED) or "").strip()
    if not text:
        return ()
    found = []
    for number, (namespace, name, interface) in enumerate(_parts(text), start=1):
        where = namespace or meta.get("namespace", "default")
        if name not in known:
            raise AttachmentError(
                f"cannot find a network-attachment-definition ({name}) in namespace ({where}): "
                f"these nodes have {', '.join(known) or 'no further network'}"
            )
        found.append(Attachment(f"{where}/{name}", interface or f"net{number}"))
    taken = [one.interface for one in found]
    if len(set(taken)) != len(taken) or "eth0" in taken or any(not 0 < len(name) < 16 for name in taken):
        raise AttachmentError(
            f"the annotation {ASKED} gives an interface twice or a name that cannot be used: {text}"
        )
    return tuple(found)


def _parts(text: str) -> list[tuple[str, str, str]]:
    """Return namespace, name and interface of each network of an annotation."""
    if text.startswith("["):
        try:
            entries = json.loads(text)
            return [
                (str(e.get("namespace") or ""), str(e["name"]), str(e.get("interface") or ""))
                for e in entries
            ]
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise AttachmentError(f"the annotation {ASKED} cannot be read: {error}") from None
    found = []
    for word in text.split(","):
        name, _, interface = word.strip().partition("@")
        namespace, _, name = name.rpartition("/")
        found.append((namespace, name, interface))
    return found


def status(ip: str, interfaces: Sequence[Interface]) -> str:
    """Return what the annotation with the result says: the pod's own network first."""
    own: Object = {"name": "pods", "interface": "eth0", "ips": [ip], "default": True, "dns": {}}
    told = [
        {
            "name": one.attachment.network,
            "interface": one.attachment.interface,
            "ips": [one.ip],
            "mac": one.mac,
        }
        for one in interfaces
    ]
    return json.dumps([own, *told])


async def publish(api: Api, pod: Object, ip: str, interfaces: Sequence[Interface]) -> Object:
    """Write the annotation with the result onto a pod; returns the pod as it is then."""
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
    told = {"metadata": {"annotations": {TOLD: status(ip, interfaces)}}}
    return await api.patch(path, told)
