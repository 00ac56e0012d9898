"""Where a cluster comes from: the embedded one or one that exists."""

from pytest_gpucluster.provider.cluster_of_run import (
    Held,
    attach,
    completed,
    obtain,
    of,
    start,
    stop,
    verify,
)
from pytest_gpucluster.provider.defects import check_defects, known_defects
from pytest_gpucluster.provider.protocol import (
    CLUSTER_FILE,
    ONE_MACHINE,
    PODS_RUN,
    Cluster,
    Provider,
    ProviderError,
)

__all__ = [
    "CLUSTER_FILE",
    "ONE_MACHINE",
    "PODS_RUN",
    "Cluster",
    "Held",
    "Provider",
    "ProviderError",
    "attach",
    "check_defects",
    "completed",
    "known_defects",
    "obtain",
    "of",
    "start",
    "stop",
    "verify",
]
