"""What is declared of the metrics of GPUs: where their exporters answer, and how soon a value must be renewed."""

from typing import Annotated

from pydantic import Field

from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen, Seconds, Text


class Metrics(Frozen):
    """Where the metrics of each GPU node are, in the text format of Prometheus."""

    service: Annotated[str, shapes.OBJECT] | None = Field(
        default=None,
        description="Service in front of the exporters, in the namespace of gpu-operator (key `namespaces`), such as "
        "nvidia-dcgm-exporter; none: they answer at the address of each node",
    )
    port: Annotated[int, Field(strict=True, ge=1, le=65535)] = Field(
        default=9400, description="TCP port on which each exporter answers: 9400 of DCGM's, 5000 of AMD's"
    )
    path: Annotated[str, shapes.PATH] = Field(default="/metrics", description="Path of the page")
    fresh: Seconds = Field(
        default=60.0,
        description="Seconds within which every value must be renewed; no less than the collection interval of the "
        "exporter (30 s of DCGM's)",
    )
    required: tuple[Text, ...] = Field(
        default=(),
        description="Names of metrics that every GPU must have; none: energy, temperature, power and used memory, "
        "under the names of the vendor's exporter",
    )
