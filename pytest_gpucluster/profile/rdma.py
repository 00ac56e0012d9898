"""What is declared of the RDMA adapters of GPU nodes, and of the networks through which pods get them."""

from typing import Annotated

from pydantic import Field

from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen


class Rdma(Frozen):
    """Declares that GPU nodes offer RDMA devices to pods, and how many."""

    resource: Annotated[str, shapes.RESOURCE] = Field(
        description="Resource that pods ask for to get RDMA devices, such as rdma/hca_shared_devices_a"
    )
    per_node: Annotated[int, Field(strict=True, ge=1)] = Field(
        description="Number of that resource that each GPU node offers: adapters or functions, or how many pods share "
        "them"
    )
    networks: tuple[Annotated[str, shapes.DEFINITION], ...] = Field(
        default=(),
        description="NetworkAttachmentDefinitions, NAMESPACE/NAME, through which pods get these devices; none: not "
        "read",
    )
