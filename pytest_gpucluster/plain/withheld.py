"""Values that are not written unless somebody reads them: of variables, arguments, annotations, data of ConfigMaps.

What judges and rules read stands in lists here. Everything else is replaced by its length and a digest, by which equal
values are still seen to be equal. The key of the digest is made when the process starts and is never written: nobody
can find a value by trying.
"""

import functools
import hashlib
import os
import re
from collections.abc import Mapping

_KEY = os.urandom(32)

MARK = re.compile(r"<\d+ characters?, [0-9a-f]{8}>")
"""What stands in place of a value."""

# -- variables -------------------------------------------------------------------------------------------------------

_VARIABLES = re.compile(
    r"(?:NCCL|RCCL|GLOO|UCX|UCC|FI|OMPI|PMIX?|SLURM|VC|VK|GPUCLUSTER|TORCHELASTIC|TORCH_NCCL|TORCH_DISTRIBUTED|PET|"
    r"CUDA_VISIBLE|CUDA_DEVICE|NVIDIA|HIP_VISIBLE|ROCR_VISIBLE|KUBERNETES_SERVICE|JOB_COMPLETION|LOCAL|GROUP|ROLE|MPI|"
    r"POD|NODE|HOST|MASTER|MEGASCALE|TPU|JAX|COORDINATOR|NUM_PROCESSES|PROCESS|HYDRA|TF_CONFIG|KUBEDL|OMP|GOMP|NUMA|MKL|"
    r"NVSHMEM|AWS_OFI_NCCL|MLX5|HSA|HABANA|HCCL|HCL|ASCEND|CCL|ZE|NEURON_RT)"
    r"_[A-Z0-9_]+|RANK|WORLD_SIZE|HOSTNAME|MPI_HOST|TF_CONFIG|CUDA_VISIBLE_DEVICES|PATH|LD_LIBRARY_PATH|LD_PRELOAD|"
    r"PYTHONUNBUFFERED|PYTHONPATH|NPROC_PER_NODE|NNODES|NUM_NODES|NUM_GPUS|GPUS_PER_NODE|ATTEMPT|RDZV_[A-Z_]+|"
    r"TOKENIZERS_PARALLELISM|PROCESS_COUNT|PROCESS_ID|JOB_NAME|TASK_INDEX|INDEX"
)
"""Rank, rendezvous, fabric, devices, where a process runs, and our own."""


def variable(name: str, value: str) -> str | None:
    """Return what is written of a variable's value; None where the value is one that is read."""
    if not value or _VARIABLES.fullmatch(name):
        return None
    return of(value)


# -- annotations, and labels of what is not ours ---------------------------------------------------------------------

_DOMAINS = (
    "volcano.sh", "gpucluster.dev", "kueue.x-k8s.io", "k8s.v1.cni.cncf.io", "batch.kubernetes.io", "jobset.sigs.k8s.io",
    "leaderworkerset.sigs.k8s.io", "trainer.kubeflow.org", "kubeflow.org", "run.ai", "kai.scheduler",
    "nvidia.com", "node.kubernetes.io", "node.alpha.kubernetes.io", "scheduling.k8s.io", "topology.kubernetes.io",
    "scheduler.alpha.kubernetes.io", "autoscaler.kubernetes.io", "cluster-autoscaler.kubernetes.io", "karpenter.sh",
    "kubernetes.io", "istio.io", "linkerd.io", "cilium.io", "projectcalico.org", "ovn.org", "x-k8s.io", "k8s.io",
    "ray.io", "amd.com", "intel.com", "openshift.io", "sagemaker.amazonaws.com", "cloud.google.com",
    "oraclecloud.com", "sim",
)  # fmt: skip
_BARE = frozenset({
    "pod-group-name", "app", "role", "task", "job-name", "controller-uid", "name", "queue", "cordon-by",
    "cordon-timestamp", "quarantineHealthEvent", "quarantineHealthEventAppliedTaints",
    "quarantineHealthEventIsCordoned",
})  # fmt: skip
_NEVER = ("last-applied-configuration", "sidecar.istio.io/status", "cluster.x-k8s.io/annotations")
"""Ends of annotations that repeat a whole manifest."""
_PLAIN = re.compile(r"[\w.:/,@=+\[\]{}\"' -]{0,200}")


@functools.lru_cache(maxsize=4096)
def is_known(key: str) -> bool:
    """Report whether an annotation or a label is one of a scheduler, a network or Kubernetes itself, or ours."""
    domain, slash, _ = key.partition("/")
    if not slash:
        return key in _BARE
    return any(domain == known or domain.endswith(f".{known}") for known in _DOMAINS)


def annotation(key: str, value: str) -> str | None:
    """Return what is written of an annotation's value; None where the value is one that is read."""
    if not value:
        return None
    if is_known(key) and not key.endswith(_NEVER):
        return None
    return of(value)


# -- data of ConfigMaps ----------------------------------------------------------------------------------------------

_FILES = re.compile(
    r"[\w-]+\.host|VC_[A-Z0-9_]+_(?:HOSTS|NUM)|hostfile|[\w.-]*(?:scheduler|volcano|kueue|kubelet|controller_manager)"
    r"[\w.-]*\.(?:conf|ya?ml|json)"
)
"""Lists of hosts, and how a scheduler or a kubelet is configured."""


def entry(key: str, value: str, *, ours: bool) -> str | None:
    """Return what is written of an entry of a ConfigMap; None where it is one that is read, or a program of ours."""
    if not value or _FILES.fullmatch(key) or (ours and key.endswith(".py")):
        return None
    return of(value)


# -- the digest ------------------------------------------------------------------------------------------------------


def of(value: str) -> str:
    """Return length and digest of a value; what stands already in place of one is returned as it is."""
    if MARK.fullmatch(value):
        return value
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), key=_KEY, digest_size=4).hexdigest()
    return f"<{len(value)} character{'' if len(value) == 1 else 's'}, {digest}>"


def labels(found: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of an object that is not ours: values of keys that nobody reads are withheld."""
    return {
        key: value if is_known(key) or not isinstance(value, str) or not value else of(value)
        for key, value in found.items()
    }
