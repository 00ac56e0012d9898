"""What is declared of Kueue."""

from pydantic import Field

from pytest_gpucluster.profile.base import Frozen, Seconds, Text


class Kueue(Frozen):
    """That Kueue is installed, and how it is set up; an empty mapping declares it with its defaults."""

    cluster_queue: Text | None = Field(
        default=None,
        description="ClusterQueue whose quota training takes; none: the one called as `queue` says",
    )
    local_queue: Text | None = Field(
        default=None,
        description="LocalQueue that Jobs name, in the namespace that is lent to runs; none: the one called as `queue` "
        "says",
    )
    wait_for_pods_ready: Seconds | None = Field(
        default=None,
        description="Timeout of waitForPodsReady in Kueue's configuration, in seconds; none: it is not configured",
    )
