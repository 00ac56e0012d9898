"""What is declared of the alignment of pods to NUMA nodes."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen


class Numa(Frozen):
    """Declares that the nodes align pods to NUMA nodes, and how; an empty mapping declares it with its defaults."""

    policy: Literal["single-numa-node", "restricted", "best-effort"] = Field(
        default="single-numa-node", description="Topology Manager policy of every GPU node"
    )
    scope: Literal["pod", "container"] = Field(
        default="pod", description="Topology Manager scope of every GPU node"
    )
    nodes: Annotated[int, Field(strict=True, ge=1)] = Field(
        default=2, description="Number of NUMA nodes of a GPU node; its GPUs are spread evenly over them"
    )
    qos: Literal["Guaranteed", "Burstable", "BestEffort"] | None = Field(
        default=None, description="QoS class of training pods; none: not declared"
    )
    cpus: Annotated[int, Field(strict=True, ge=1)] | None = Field(
        default=None,
        description="Number of whole CPUs that a training pod asks for and gets; none: not declared",
    )
    functions: Annotated[str, shapes.RESOURCE] | None = Field(
        default=None,
        description="Resource name of network functions, such as rdma/hca; a training pod asks for one; none: it "
        "asks for none",
    )

    @model_validator(mode="after")
    def _who_asks_for_cpus_is_not_last(self) -> Self:
        if self.qos == "BestEffort" and self.cpus is not None:
            raise PydanticCustomError(
                "best_effort_cpus", "must be left out with `qos: BestEffort`, whose pods ask for no CPU"
            )
        return self
