"""What is declared of a second interface of pods, or a tunnel, that carries training."""

from typing import Annotated

from pydantic import Field

from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen


class Secondary(Frozen):
    """That training goes over another interface than the pod's own, and which."""

    interface: Annotated[str, shapes.INTERFACE] = Field(
        description="Name of the interface, as pods see it, such as net1 or wg0"
    )
    network: Annotated[str, shapes.NETWORKS] | None = Field(
        default=None,
        description="Network that pods ask for, as the annotation k8s.v1.cni.cncf.io/networks names it; none: pods get "
        "the interface without asking",
    )
