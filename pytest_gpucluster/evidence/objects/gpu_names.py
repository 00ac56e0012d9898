"""Which names of extended resources stand for GPUs, and which only read as if they did."""

import functools
import re

GPU_RESOURCE = re.compile(
    r"^(?:nvidia\.com/(?:gpu|pgpu|mig-[a-z0-9.+_-]+?)|amd\.com/gpu|gpu\.intel\.com/(?:i915|xe)|habana\.ai/gaudi)"
    r"(?P<shared>\.shared)?$"
)
"""Resource names of device plugins that stand for GPUs or parts of them."""

_WORD = re.compile(r"gpu", re.IGNORECASE)
_PRODUCT = re.compile(
    r"(?:^|[^a-z0-9])(?:[abhpv][1-3]00[a-z]?|h20|l40s?|l4|t4|a10g?|a16|a30|a40|g[abhpv]\d{3}[a-z]*|ad\d{3}[a-z]*"
    r"|mi\d{3}[a-z]*|rtx[a-z0-9]*|tesla|quadro|geforce|gaudi\d?)(?:[^a-z0-9]|$)",
    re.IGNORECASE,
)
_ADAPTER = re.compile(
    r"nic|hca|rdma|roce|infiniband|sriov|efa|hostdev|(?:^|[^a-z])(?:ib|vf|net)", re.IGNORECASE
)
"""Adapters, which are often named after the GPU that they serve."""
_MEASURE = re.compile(r"_monitoring$|^gpu\.intel\.com/(?:memory\.max|millicores|tiles|family)")
"""Names that stand for access to counters, or for amounts of GPUs that are offered under their own name."""


@functools.cache
def is_gpu(resource: str) -> bool:
    """Report whether a resource name stands for GPUs or parts of them."""
    return GPU_RESOURCE.match(resource) is not None


@functools.cache
def reads_as_gpu(resource: str) -> bool:
    """Report whether a resource name may stand for GPUs: a known one, or one that speaks of GPUs or of a product.

    Everybody may name his own (`volcano.sh/vgpu-number`, `aliyun.com/gpu-mem`, `nvidia.com/gpu-h100`): what a node
    offers under such a name is never taken for nothing.
    """
    if is_gpu(resource):
        return True
    name = resource.rpartition("/")[2]
    if _ADAPTER.search(name) or _MEASURE.search(resource):
        return False
    return bool(_WORD.search(resource) or _PRODUCT.search(name))
