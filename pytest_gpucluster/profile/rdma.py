"""What is declared of the RDMA adapters of GPU nodes, and of the networks through which pods get them."""

from typing import Annotated, Literal

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
    port_gbps: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Rate of each active port in Gbit/s, as sysfs tells it, such as 400.0; none: not judged",
    )
    link_layer: Literal["InfiniBand", "Ethernet"] | None = Field(
        default=None, description="Link layer of the ports; Ethernet for RoCE; none: not judged"
    )
    networks: tuple[Annotated[str, shapes.DEFINITION], ...] = Field(
        default=(),
        description="NetworkAttachmentDefinitions, NAMESPACE/NAME, through which pods get these devices; none: not "
        "read",
    )
