"""What is declared of one GPU host without Kubernetes."""

from typing import Annotated

from pydantic import Field

from pytest_gpucluster.profile.base import Frozen, Text

ENVIRONMENT = ("LD_LIBRARY_PATH", "NCCL_*", "NVSHMEM_*", "TORCH_*", "UCX_*", "FI_*")
"""Variables of the machine that libraries of training read: where the driver's are, and what may not be used."""


class Host(Frozen):
    """How the provider host makes nodes of the machine."""

    nodes: Annotated[int, Field(strict=True, ge=1)] = Field(
        default=1, description="Number of nodes among which the machine's GPUs are divided evenly"
    )
    gpus: tuple[tuple[Text, ...], ...] = Field(
        default=(),
        description="GPUs of each node by number, UUID or PCI address, such as [['0', '1'], ['2', '3']]; replaces "
        "`nodes`; none: all GPUs",
    )
    environment: tuple[Text, ...] = Field(
        default=ENVIRONMENT,
        description="Names or patterns of the machine's environment variables that containers get, as if an image "
        "set them",
    )
