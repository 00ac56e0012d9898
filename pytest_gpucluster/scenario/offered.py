"""Whether a cluster that exists answers, has the declared queue, and nodes that offer the declared GPU resource."""

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_gpucluster.kube import connection, errors, objects, retry
from pytest_gpucluster.plain import names, plurals
from pytest_gpucluster.scenario import gpu_nodes
from pytest_gpucluster.workload import dialect_for

if TYPE_CHECKING:
    from pytest_gpucluster.profile import LoadedProfile
    from pytest_gpucluster.profile.model import Connection

EXISTING = "existing"
"""Provider of clusters whose nodes are not made for the run."""


class Offered(NamedTuple):
    """What came of the question, each "" where there is nothing to say.

    Attributes:
        note: what could not be asked, or is odd, in one line.
        problem: why no row can be decided: the cluster does not answer or refuses who asks, the queue is not there, no
            node offers the resource, or some do and none is declared to; where that stands, and what mends it.
    """

    note: str = ""
    problem: str = ""


def ask(loaded: "LoadedProfile") -> Offered:
    """Ask the nodes and the queues, where the run does not make them; reads only.

    Any name of a resource is good that a node offers: renamed, shared, a MIG profile, another vendor's.
    """
    profile = loaded.profile
    declared = profile.connection
    if profile.provider != EXISTING or declared is None:
        return Offered()
    # Rows have more patience; here nobody knows yet whether the cluster answers at all.
    limits = retry.Limits(read=5.0, attempts=2, total=10.0)
    try:
        opened = connection.Connection.open(declared.kubeconfig, declared.context, limits=limits)
        there = objects.Objects(opened)
        nodes = there.list(objects.NODE)
    except errors.GpuClusterError as error:
        return _unread(loaded, declared, error)
    found = _nodes(loaded, nodes)
    return found if found.problem else _queue(loaded, there)


def _unread(loaded: "LoadedProfile", declared: "Connection", error: errors.GpuClusterError) -> Offered:
    """Say what it means that the nodes could not be read: no row has a chance where nobody answers, or not us."""
    profile = loaded.profile
    text = " ".join(str(error).split())
    who = shlex.join([f"--kubeconfig={declared.kubeconfig}", f"--context={declared.context}"])
    where = loaded.sources.get("connection.context") or str(loaded.file or profile.name)
    # Whoever took the request and is silent may be busy: rows wait longer.
    if isinstance(error, errors.Unreachable) and not error.sent:
        fix = f"start or reach it (server in the kubeconfig, VPN, proxy), until this answers: kubectl {who} version"
        return Offered(problem=f"{where}: the cluster does not answer: {text}; {fix}")
    if isinstance(error, errors.ApiError) and error.code == 401:
        fix = f"log in again, or renew the credentials in the kubeconfig, until this answers: kubectl {who} auth whoami"
        return Offered(
            problem=f"{where}: the cluster refuses the credentials (expired or revoked): {text}; {fix}"
        )
    return Offered(
        f"the nodes could not be read, so it is not known whether one offers {profile.gpu_resource}: {text}"
    )


def _queue(loaded: "LoadedProfile", there: objects.Objects) -> Offered:
    """Say that the declared queue is not there, or takes nothing; not where the suite makes queues of its own."""
    profile = loaded.profile
    spoken = dialect_for(profile.scheduler, profile.queue)
    if not spoken.queue or spoken.own_queues:
        return Offered()
    try:
        found = [one for kind in spoken.queues for one in there.list(objects.table_row(kind))]
    except errors.GpuClusterError:
        return Offered()  # the scheduler is not there, or this account may not list them: rows say so
    queues = {str(one["metadata"]["name"]): one for one in found}
    for key, name in (("queue", profile.queue), ("conformance_queue", profile.conformance_queue)):
        if name is not None and name not in queues:
            where = loaded.sources.get(key) or str(loaded.file or profile.name)
            known = names.did_you_mean(name, queues) if queues else " (the cluster has none)"
            return Offered(problem=f"{where}: {key} = {name!r}: the cluster has no such queue{known}")
    used = profile.runs_in  # one that is held is closed as declared, and takes none of ours
    state = str((queues[used].get("status") or {}).get("state") or "Open")
    if state != "Open":
        return Offered(
            f"the queue {used} is {state} and takes no Jobs: vcctl queue operate -a open -n {used}"
        )
    return Offered()


def _nodes(loaded: "LoadedProfile", nodes: Sequence[Mapping[str, Any]]) -> Offered:
    """Compare what nodes offer with what is declared."""
    profile = loaded.profile
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
