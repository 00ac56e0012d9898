"""What is declared of a second interface of pods, or a tunnel, that carries training."""

from typing import Annotated

from pydantic import Field

from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen


class Secondary(Frozen):
    """Declares that training uses another interface than the pod's own, and which."""

    interface: Annotated[str, shapes.INTERFACE] = Field(
        description="Name of the interface inside pods, such as net1 or wg0"
    )
    network: Annotated[str, shapes.NETWORKS] | None = Field(
        default=None,
        description="Network that pods ask for, as in the annotation k8s.v1.cni.cncf.io/networks; none: pods get the "
        "interface without asking",
    )
