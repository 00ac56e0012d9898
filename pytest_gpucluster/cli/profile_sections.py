"""The sections of a first profile that declare what a cluster has, as comments: fabric, mfu, kueue, numa and others."""

from collections import Counter
from collections.abc import Callable, Sequence

from pytest_gpucluster.cli.cluster_survey import Survey
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects import gpu_names
from pytest_gpucluster.plain import names

Comments = Callable[..., list[str]]
Scalar = Callable[[str], str]

PRODUCTS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")

_CARRIERS = (("efa", "NET/OFI"), ("rdma", "NET/IB"), ("hca", "NET/IB"), ("ib", "NET/IB"))
"""Part of the name of an adapter's resource -> what usually carries the traffic there."""


def sections(survey: Survey, comments: Comments, scalar: Scalar) -> list[str]:
    """Return the sections, each with what was seen; whoever removes the comment marks has a profile that can be used.

    Args:
        survey: what was seen.
        comments: makes comments of bounded width of texts.
        scalar: writes a text as YAML.
    """
    head = comments(
        "Sections: each declares what the cluster has, and so switches on the rows of its name. Without a section its "
        "rows are not applicable. `gpucluster describe keys SECTION` lists all its keys."
    )
    return [
        *head,
        "",
        *_fabric(survey, comments, scalar),
        "",
        *_mfu(survey, comments),
        "",
        *_kueue(survey, comments, scalar),
        "",
        *_numa(survey, comments, scalar),
        "",
        *_storage(survey, comments),
        "",
        *_elastic(comments),
    ]


def _fabric(survey: Survey, comments: Comments, scalar: Scalar) -> list[str]:
    found = adapters(survey)
    seen = "; ".join(f"{name} {_shares(counts)}" for name, counts in found.items()) or "no adapter resources"
    transport = next((to for name in found for part, to in _CARRIERS if part in name.lower()), "NET/IB")
    each = {count for counts in found.values() for count in counts}
    return [
        *comments(
            "Section fabric: what carries collectives between nodes, and how fast it must be (the rows FAB).",
            f"observed: {len(survey.gpu_machines)} GPU nodes; {seen}",
        ),
        "# fabric:",
        f"#   nodes: {max(1, min(2, len(survey.gpu_machines)))}",
        f"#   transport: {scalar(transport)}",
        *([f"#   nics_per_node: {each.pop()}"] if len(each) == 1 else []),
        "#   floor_file: bus_bandwidth",
    ]


def _mfu(survey: Survey, comments: Comments) -> list[str]:
    seen = next(
        (f"{key} is {survey.common(key)}" for key in PRODUCTS if survey.common(key)),
        "no label names the GPUs",
    )
    return [
        *comments("Section mfu: how fast GPUs and training must be (the rows MFU).", f"observed: {seen}"),
        "# mfu:",
        "#   nodes: 1",
        "#   floor_file: products",
    ]


def _kueue(survey: Survey, comments: Comments, scalar: Scalar) -> list[str]:
    queues = [fields.text(queue, "metadata", "name") for queue in survey.cluster_queues or ()]
    if survey.cluster_queues is not None:
        seen = f"ClusterQueues {', '.join(queues) or 'none'}"
    elif any("clusterqueues" in line for line in survey.refused):
        seen = "ClusterQueues may not be listed"
    else:
        seen = "the API serves no ClusterQueues: leave this section out"
    return [
        *comments("Section kueue: Kueue is installed (the rows KUE).", f"observed: {seen}"),
        *(["# kueue:", f"#   cluster_queue: {scalar(queues[0])}"] if len(queues) == 1 else ["# kueue: {}"]),
    ]


def _numa(survey: Survey, comments: Comments, scalar: Scalar) -> list[str]:
    node = survey.gpu_machines[0].name if survey.gpu_machines else "NODE"
    functions = next((name for name in adapters(survey)), "")
    return [
        *comments(
            "Section numa: nodes align pods to NUMA nodes (the rows NUMA).",
            "observed: nothing; topologyManagerPolicy and topologyManagerScope stand in the kubelet's configuration "
            f"(kubectl get --raw /api/v1/nodes/{node}/proxy/configz).",
        ),
        "# numa:",
        "#   policy: single-numa-node",
        "#   scope: pod",
        "#   nodes: 2",
        "#   qos: Guaranteed",
        *([f"#   functions: {scalar(functions)}"] if functions else []),
    ]


def _storage(survey: Survey, comments: Comments) -> list[str]:
    return [
        *comments(
            "Section storage: what checkpoints are kept on (the rows CKPT).",
            "observed: nothing; put in the class of a volume that all nodes can mount (kubectl get storageclass).",
        ),
        "# storage:",
        f"#   nodes: {max(1, min(2, len(survey.gpu_machines) - 1))}",
        "#   durable: {source: storage_class, name: shared, size: 200Gi}",
        "#   local: {source: empty_dir}",
    ]


def _elastic(comments: Comments) -> list[str]:
    return [
        *comments(
            "Section elastic: training may lose and gain workers (the rows ELA).",
            "observed: nothing; the program that trains says whether it goes on with fewer workers.",
        ),
        "# elastic:",
        "#   min: 2",
        "#   max: 3",
    ]


def adapters(survey: Survey) -> dict[str, Counter[int]]:
    """Return what GPU nodes offer beside GPUs: resource -> how many a node has -> nodes with so many."""
    found: dict[str, Counter[int]] = {}
    for machine in survey.gpu_machines:
        for name, count in machine.capacity.items():
            if count > 0 and not gpu_names.is_gpu(name) and not name.startswith(names.SLOT_PREFIX):
                found.setdefault(name, Counter())[count] += 1
    return dict(sorted(found.items()))


def _shares(counts: Counter[int]) -> str:
    shown: Sequence[tuple[int, int]] = counts.most_common(3)
    return ", ".join(f"{count} on {nodes} node{'s' if nodes != 1 else ''}" for count, nodes in shown)
