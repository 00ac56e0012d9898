"""What is declared of Kueue."""

from typing import Annotated

from pydantic import Field

from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen, Seconds


class Kueue(Frozen):
    """That Kueue is installed, and how it is set up; an empty mapping declares it with its defaults."""

    cluster_queue: Annotated[str, shapes.OBJECT] | None = Field(
        default=None,
        description="ClusterQueue whose quota training takes; none: the one called as `queue` says",
    )
    local_queue: Annotated[str, shapes.LABELLED] | None = Field(
        default=None,
        description="LocalQueue that Jobs name, in the namespace that is lent to runs; none: the one called as `queue` "
        "says",
    )
    wait_for_pods_ready: Seconds | None = Field(
        default=None,
        description="Timeout of waitForPodsReady in Kueue's configuration, in seconds; none: it is not configured",
    )
