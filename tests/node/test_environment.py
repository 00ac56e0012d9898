"""Environment and command lines, expanded as Kubernetes does. Pure."""

import asyncio
from typing import Any

import pytest

from pytest_gpucluster.node import environment

POD: dict[str, Any] = {
    "metadata": {
        "name": "p", "namespace": "ns", "uid": "u-1", "labels": {"app": "train", "b": 'q"uote'},
        "annotations": {"note/x": "y"},
    },
    "spec": {
        "nodeName": "gpu-0", "containers": [{"name": "c", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}],
    },
}  # fmt: skip
ADDRESSES = {"status.podIP": "10.0.0.5", "status.hostIP": "10.0.0.1"}
OBJECTS = {
    ("configmaps", "cfg"): {"kind": "ConfigMap", "data": {"A": "1", "B": "2"}},
    ("secrets", "sec"): {"kind": "Secret", "data": {"S": "aGlkZGVu"}},
}


async def fetch(resource: str, name: str) -> dict[str, Any] | None:
    """Look up one of the objects above."""
    return OBJECTS.get((resource, name))


def built(container: dict[str, Any], **base: str) -> dict[str, str]:
    """Build an environment."""
    return asyncio.run(environment.build({"name": "c", **container}, POD, ADDRESSES, fetch, base))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"), ("x$(A)y$(B)", "x1y2"), ("$(NOPE)", "$(NOPE)"), ("$$(A)", "$(A)"), ("$$$(A)", "$1"),
        ("$A ${A}", "$A ${A}"), ("$(A", "$(A"), ("$", "$"), ("$$", "$"), ("", ""), ("$()", "$()"),
    ],
)  # fmt: skip
def test_references_are_expanded(text: str, expected: str) -> None:
    """Known references are replaced, unknown ones stay, two dollar signs stand for one."""
    assert environment.expand(text, {"A": "1", "B": "2"}) == expected


def test_order_and_precedence() -> None:
    """Entries see those before them, a later entry of the same name wins, and envFrom is overridden by env."""
    found = built(
        {
            "envFrom": [{"configMapRef": {"name": "cfg"}}, {"prefix": "P_", "secretRef": {"name": "sec"}}],
            "env": [
                {"name": "X", "value": "$(Y)"}, {"name": "Y", "value": "y$(A)"}, {"name": "A", "value": "own"},
                {"name": "X", "value": "$(Y)$(PATH)"},
            ],
        },
        PATH="/bin",
    )  # fmt: skip
    assert found == {"PATH": "/bin", "A": "own", "B": "2", "P_S": "hidden", "X": "y1/bin", "Y": "y1"}


def test_values_from_the_pod() -> None:
    """Field references give name, namespace, uid, one label, one annotation, node and addresses."""
    paths = {
        "NAME": "metadata.name", "NS": "metadata.namespace", "UID": "metadata.uid", "APP": "metadata.labels['app']",
        "NOTE": "metadata.annotations['note/x']", "NONE": "metadata.labels['none']", "NODE": "spec.nodeName",
        "IP": "status.podIP", "HOST": "status.hostIP",
    }  # fmt: skip
    env = [{"name": k, "valueFrom": {"fieldRef": {"fieldPath": v}}} for k, v in paths.items()]
    assert built({"env": env}) == {
        "NAME": "p", "NS": "ns", "UID": "u-1", "APP": "train", "NOTE": "y", "NONE": "", "NODE": "gpu-0",
        "IP": "10.0.0.5", "HOST": "10.0.0.1",
    }  # fmt: skip


def test_resources_are_rounded_up() -> None:
    """Resource references give whole multiples of the divisor, rounded up."""
    cpu = {"containerName": "c", "resource": "limits.cpu"}
    memory = {"containerName": "c", "resource": "limits.memory", "divisor": "1Mi"}
    env = [
        {"name": name, "valueFrom": {"resourceFieldRef": reference}}
        for name, reference in (("CPU", cpu), ("MI", memory))
    ]
    assert built({"env": env}) == {"CPU": "2", "MI": "1024"}


def test_absent_sources() -> None:
    """An absent object or key is an error in a kubelet's words, unless it is optional."""
    absent = {"configMapKeyRef": {"name": "none", "key": "k"}}
    with pytest.raises(environment.MissingObjectError, match='configmap "none" not found'):
        built({"env": [{"name": "V", "valueFrom": absent}]})
    no_key = {"configMapKeyRef": {"name": "cfg", "key": "k"}}
    with pytest.raises(environment.MissingKeyError, match="couldn't find key k in ConfigMap ns/cfg"):
        built({"env": [{"name": "V", "valueFrom": no_key}]})
    optional = [
        {"name": "V", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": True}}},
        {"name": "W", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "k", "optional": True}}},
    ]
    assert built({"env": optional, "envFrom": [{"secretRef": {"name": "none", "optional": True}}]}) == {}


def test_all_labels_in_one_text() -> None:
    """All labels are written one a line, quoted."""
    assert environment.field_value("metadata.labels", POD, {}) == 'app="train"\nb="q\\"uote"'
