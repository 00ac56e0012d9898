"""Whether any node of a cluster that exists offers the declared GPU resource."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_gpucluster.kube import connection, errors, objects, retry
from pytest_gpucluster.plain import names, plurals
from pytest_gpucluster.scenario import gpu_nodes

if TYPE_CHECKING:
    from pytest_gpucluster.profile import LoadedProfile

EXISTING = "existing"
"""Provider of clusters whose nodes are not made for the run."""


class Offered(NamedTuple):
    """What came of the question, each "" where there is nothing to say.

    Attributes:
        note: why it could not be asked, in one line.
        problem: that no node offers the resource, or some do and none is declared to; where that stands, and what
            the nodes offer.
    """

    note: str = ""
    problem: str = ""


def ask(loaded: "LoadedProfile") -> Offered:
    """Ask the nodes, where the run does not make them.

    Any name is good that a node offers: renamed, shared, a MIG profile, another vendor's.
    """
    profile = loaded.profile
    declared = profile.connection
    if profile.provider != EXISTING or declared is None:
        return Offered()
    # Rows have more patience; here nobody knows yet whether the cluster answers at all.
    limits = retry.Limits(read=5.0, attempts=2, total=10.0)
    try:
        opened = connection.Connection.open(declared.kubeconfig, declared.context, limits=limits)
        nodes = objects.Objects(opened).list(objects.NODE)
    except errors.GpuClusterError as error:
        text = " ".join(str(error).split())
        return Offered(
            f"the nodes could not be read, so it is not known whether one offers {profile.gpu_resource}: {text}"
        )
    if profile.gpus_per_node == 0:
        return _none_declared(loaded, nodes)
    offered = gpu_nodes.named(nodes)
    if profile.gpu_resource in offered:
        return Offered()
    where = loaded.sources.get("gpu_resource") or str(loaded.file or profile.name)
    said = _said(profile.gpu_resource, offered, len(nodes))
    return Offered(problem=f"{where}: gpu_resource = {profile.gpu_resource!r}: no node offers it{said}")


def _none_declared(loaded: "LoadedProfile", nodes: Sequence[Mapping[str, Any]]) -> Offered:
    """Compare the declaration that no node has GPUs: where some have, rows would not apply that must be decided."""
    resource = loaded.profile.gpu_resource
    having = sum(
        ((node.get("status") or {}).get("capacity") or {}).get(resource, "0") != "0" for node in nodes
    )
    if not having:
        return Offered()
    where = loaded.sources.get("gpus_per_node") or str(loaded.file or loaded.profile.name)
    said = f"says that no node has GPUs, but {having} of {len(nodes)} offer {resource}"
    return Offered(problem=f"{where}: gpus_per_node = 0: {said}")


def _said(name: str, offered: Mapping[str, int], nodes: int) -> str:
    count = plurals.count(nodes, "node")
    if not offered:
        return f" (the cluster has {count}, but none offers any device: does the device plugin run?)"
    near = names.nearest(name, offered)
    hint = f"; did you mean {near!r}?" if near else ""
    listed = ", ".join(f"{each} on {on}" for each, on in sorted(offered.items()))
    return f"{hint} (of {count}, offered: {listed})"
