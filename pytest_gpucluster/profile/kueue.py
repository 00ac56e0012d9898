"""What is declared of Kueue."""

from typing import Annotated

from pydantic import Field

from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen, Seconds


class Kueue(Frozen):
    """Declares that Kueue is installed, and how it is configured; an empty mapping declares it with its defaults."""

    cluster_queue: Annotated[str, shapes.OBJECT] | None = Field(
        default=None,
        description="ClusterQueue whose quota training uses; none: the one named in `queue`",
    )
    local_queue: Annotated[str, shapes.LABELLED] | None = Field(
        default=None,
        description="LocalQueue that Jobs name, in the namespace that you lend to runs; none: the one named in `queue`",
    )
    wait_for_pods_ready: Seconds | None = Field(
        default=None,
        description="Timeout of waitForPodsReady in Kueue's configuration, in seconds; none: not configured",
    )
