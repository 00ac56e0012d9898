"""What is declared of one GPU host without Kubernetes."""

from typing import Annotated

from pydantic import Field

from pytest_gpucluster.profile.base import Frozen, Text

ENVIRONMENT = ("LD_LIBRARY_PATH", "NCCL_*", "NVSHMEM_*", "TORCH_*", "UCX_*", "FI_*")
"""Variables of the machine that libraries of training read: where the driver's are, and what may not be used."""


class Host(Frozen):
    """How nodes are made of the machine; only for the provider host."""

    nodes: Annotated[int, Field(strict=True, ge=1)] = Field(
        default=1, description="Nodes among which the machine's GPUs are divided evenly"
    )
    gpus: tuple[tuple[Text, ...], ...] = Field(
        default=(),
        description="GPUs of each node by number, UUID or PCI address, such as [['0', '1'], ['2', '3']], in place of "
        "`nodes`; none: all GPUs",
    )
    environment: tuple[Text, ...] = Field(
        default=ENVIRONMENT,
        description="Names or patterns of environment variables of the machine that containers get, as an image would "
        "set them",
    )
