"""Lower layers of every profile, as plain data."""

from collections.abc import Mapping
from typing import Any

DEFAULTS: Mapping[str, Any] = {
    # Volcano's shipped schedule period is 1 s; the default scheduler reacts at once.
    "scheduler_period": 1.0,
    # The longer of 3 periods and 5 s on real clusters (rule 1 of the catalogue).
    "window": 5.0,
    "budgets": {
        "admission": 30.0,
        "enqueue": 60.0,
        "bind": 120.0,
        # An image of a training stack is tens of gigabytes.
        "start": 900.0,
        "run": 300.0,
        "finish": 120.0,
        "delete": 180.0,
        "torch": 900.0,
        # As long as another run of the suite may take on a real cluster.
        "lease": 1800.0,
    },
    "slots": True,
    "lease_namespace": "default",
    "nodes": "real",
    "overlay": {"metadata": {}, "spec": {}},
    "images": {},
    "versions": {},
    "namespaces": {},
    "further_schedulers": [],
    "workload": {"kind": "job", "further": []},
    "kind": {},
    "host": {},
    "addons": {},
    "waivers": [],
}
"""What holds for any cluster unless its profile says otherwise."""

EMBEDDED: Mapping[str, Any] = {
    "provider": "embedded",
    "scheduler": "volcano",
    "further_schedulers": ["native"],
    "workload": {"further": ["jobset"]},
    # Longer than pods take to start on a busy host; recorded for Kueue: it may fire up to a second early.
    "kueue": {"wait_for_pods_ready": 3.0},
    "numa": {"policy": "single-numa-node", "scope": "pod", "nodes": 2, "qos": "Guaranteed", "cpus": 1},
    # GPUs are pretended: ranks are on CPUs. Published floors are of other shapes; that they are sane is judged.
    "fabric": {
        "device": "cpu",
        "nodes": 2,
        "floor_file": "bus_bandwidth",
        "seconds": 1.0,
        "stall_bound": 30.0,
    },
    # Shares of a peak and floors are of GPUs: what CPUs do is told, not judged by them.
    "mfu": {"device": "cpu", "nodes": 1, "seconds": 0.5},
    # A volume of this machine, which all nodes see. Its floor is what no disk of today falls below, loaded or not.
    "storage": {
        "device": "cpu",
        "durable": {"source": "storage_class", "name": "shared"},
        "local": {"source": "empty_dir"},
        "model": {"layers": 8, "width": 1024, "format": "fp32", "moments": True},
        "floor": {
            "write": 0.01,
            "read": 0.01,
            "origin": "a tenth of one rotating disk: lower is a fault of the machine, whatever else runs on it",
        },
        # Ranks share two cores with what they wait for.
        "pause": 5.0,
        "flush": 20.0,
    },
    # One machine: what a lost worker costs is mostly the import of torch by all others at once.
    "elastic": {"join_timeout": 20, "reform": 40.0},
    "queue": "default",
    "gpu_resource": "nvidia.com/gpu",
    "gpus_per_node": 8,
    "scheduler_period": 0.05,
    # 3 periods would do; half a second also covers a host on which every process waits for a CPU.
    "window": 0.5,
    "bind_spread": 0.25,
    # Four processes start at once on two cores that other scenarios share.
    "start_spread": 5.0,
    "recovery": 2.0,
    "interface": "eth0",
    # The nodes attach it to pods that ask for it, as Multus does.
    "secondary": {"network": "default/fast", "interface": "net1"},
    # Two nodes of the three are in one rack, the third is alone in another.
    "topology": {"levels": ["topology.gpucluster.dev/block", "topology.gpucluster.dev/rack"]},
    # Nodes say that they have adapters, as they say that they have GPUs.
    "rdma": {
        "resource": "rdma/hca",
        "per_node": 4,
        "port_gbps": 400.0,
        "link_layer": "InfiniBand",
        "networks": ["default/fast"],
    },
    # The kernel's log is of the machine below, which may have GPUs of its own.
    "health": {"kernel_log": False},
    # The exporters of the nodes collect up to five times a second.
    "metrics": {"fresh": 3.0},
    "budgets": {
        "admission": 5.0,
        "enqueue": 5.0,
        "bind": 8.0,
        "start": 20.0,
        "run": 20.0,
        "finish": 10.0,
        "delete": 20.0,
        "torch": 120.0,
        "lease": 60.0,
    },
    "nodes": "process",
    # They stand for the interpreter of this machine and for the etcd and MPI beside it. Their digests are those of the
    # names.
    "images": {
        "python": "embedded.invalid/python@sha256:11a4a60b518bf24989d481468076e5d5982884626aed9faeb35b8576fcd223e1",
        "torch": "embedded.invalid/torch@sha256:37bf51bfba4699a940ce31349422b24a5bc55a2b179ed7aec74459a9ae8d57b7",
        "etcd": "embedded.invalid/etcd@sha256:c38cbd92fce41312f3fbdce60510013b7f0d4004a03b45c8e762f98f1ed4006c",
        "mpi": "embedded.invalid/mpi@sha256:6f012909162e44e8ecc4f102946104ebb6e1858d02c27a24366cc2a90991ae94",
    },
    # What the embedded cluster plays.
    "versions": {"kubernetes": ["1.37"], "volcano": ["1.14"]},
    # Its GPUs have a driver that no advisory speaks of.
    "security": {
        "dated": "2026-11-30",
        "floors": [
            {"component": "driver", "branch": "1", "version": "1.0.0", "advisory": "none: it is played"},
            {"component": "driver", "branch": "0", "ended": True, "advisory": "none: it is played"},
        ],
    },
}
"""The built-in profile `embedded`, and what a profile file with `provider: embedded` begins with."""

KIND: Mapping[str, Any] = {
    "provider": "kind",
    "scheduler": "native",
    "queue": "default",
    "gpu_resource": "nvidia.com/gpu",
    "gpus_per_node": 8,
    "interface": "eth0",
    "fabric": {"device": "cpu", "floor_file": "bus_bandwidth", "seconds": 2.0},
    "mfu": {"device": "cpu", "nodes": 1, "seconds": 1.0},
    # A folder of this machine that all nodes see. Its floor is what no disk of today falls below, loaded or not.
    "storage": {
        "device": "cpu",
        "durable": {"source": "storage_class", "name": "shared"},
        "local": {"source": "empty_dir"},
        "model": {"layers": 8, "width": 1024, "format": "fp32", "moments": True},
        "floor": EMBEDDED["storage"]["floor"],
        "pause": 5.0,
        "flush": 60.0,
    },
    # Containers that start at once on a small machine join one after the other.
    "elastic": {"join_timeout": 30, "reform": 90.0},
    # As cluster.yaml of the provider sets the kubelets, with the fake NUMA nodes of its workers.
    "numa": {"policy": "single-numa-node", "scope": "pod", "nodes": 2, "qos": "Guaranteed"},
    # As cluster.yaml of the provider labels the workers.
    "topology": {"levels": ["topology.gpucluster.dev/block", "topology.gpucluster.dev/rack"]},
    # kube-scheduler reacts at once; what it could not place it tries again after one to ten seconds.
    "scheduler_period": 1.0,
    "bind_spread": 2.0,
    # A small machine starts its containers one after the other.
    "start_spread": 30.0,
    "recovery": 30.0,
    "budgets": {
        "admission": 10.0,
        "enqueue": 20.0,
        "bind": 40.0,
        # Images lie on the nodes; a small machine starts several containers at once.
        "start": 90.0,
        "run": 90.0,
        "finish": 40.0,
        "delete": 90.0,
        "torch": 240.0,
        "lease": 900.0,
    },
    "versions": {"kubernetes": ["1.37"]},
    # Its GPUs are pretended and have no driver.
    "security": {"required": []},
    "health": None,
}
"""The built-in profile `kind`, and what a profile file with `provider: kind` begins with."""

HOST: Mapping[str, Any] = {
    **EMBEDDED,
    "provider": "host",
    "security": None,
    "topology": None,
    "rdma": None,
    "health": {},
    # A machine has no exporter unless somebody started one.
    "metrics": None,
    # The machine tells how many GPUs, of which resource, on how many NUMA nodes.
    "gpus_per_node": 0,
    "numa": {"policy": "single-numa-node", "scope": "pod", "nodes": 1, "qos": "Guaranteed", "cpus": 1},
    # Real GPUs; what carries their traffic is measured, and judged where a profile declares it.
    "fabric": {"floor_file": "bus_bandwidth", "seconds": 15.0, "stall_bound": 30.0},
    # What the machine has of disks is measured; one node has no other that could take over from it.
    "storage": {"nodes": 1, "durable": {"source": "storage_class", "name": "shared", "size": "50Gi"}},
    "mfu": {
        "floor_file": "products",
        "spread": 0.1,
        "training": {
            "mfu": 0.3,
            "origin": "published training of dense models on H100: 33 to 48 %, less what eager code costs",
        },
    },
    "budgets": {
        "admission": 5.0,
        "enqueue": 5.0,
        "bind": 10.0,
        "start": 60.0,
        # A driver that is not kept loaded takes seconds to wake each GPU.
        "run": 120.0,
        "finish": 20.0,
        "delete": 30.0,
        "torch": 300.0,
        "lease": 900.0,
    },
}
"""The built-in profile `host`, and what a profile file with `provider: host` begins with."""

BUILT_IN: Mapping[str, Mapping[str, Any]] = {"embedded": EMBEDDED, "host": HOST, "kind": KIND}
"""Built-in profiles by name, which is also that of their provider.

A profile file that names such a provider begins with it: the cluster is made, hence nothing must be declared.
"""

OF_ADDONS: Mapping[str, Mapping[str, Any]] = {
    "kueue": {"kueue": {}, "versions": {"kueue": ["0.17"]}},
    "volcano": {"scheduler": "volcano", "further_schedulers": ["native"], "versions": {"volcano": ["1.14"]}},
}
"""What a kind cluster has because an add-on is installed into it."""


def vendor_facts(gpu_resource: str) -> dict[str, Any]:
    """Return what follows from the GPU resource's name.

    Clusters that taint GPU nodes use the resource's name as the taint's key, which the ExtendedResourceToleration
    admission plugin of Kubernetes relies on. Pods that ask for slots instead of GPUs do not get that toleration from
    it, hence it is laid onto every pod.
    """
    vendor = gpu_resource.partition("/")[0]
    if vendor not in {"nvidia.com", "amd.com", "gpu.intel.com", "habana.ai"}:
        return {}
    toleration = {"key": gpu_resource, "operator": "Exists", "effect": "NoSchedule"}
    return {"overlay": {"spec": {"tolerations": [toleration]}}}
