"""What the provider of a cluster claims about it."""

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from pytest_gpucluster.profile.base import Frozen, Text
from pytest_gpucluster.profile.fabric import Collective
from pytest_gpucluster.profile.mfu import Count, Format, Rate

Figure = Literal["products", "busbw", "mfu", "tokens"]


class Claim(Frozen):
    """A figure that the provider claims; it is shown beside what was measured, and never judged."""

    figure: Figure = Field(
        description="products: TFLOP/s of matrix products on one GPU; busbw: bus bandwidth of a collective in GB/s; "
        "mfu: model FLOPs utilisation of training, as a share; tokens: tokens per second of one GPU in training"
    )
    value: Rate = Field(description="What is claimed, in the unit of the figure")
    format: Format | None = Field(default=None, description="Number format; required with products")
    collective: Collective | None = Field(default=None, description="The collective; required with busbw")
    size: Count | None = Field(
        default=None, description="Size in bytes, as nccl-tests counts it; required with busbw"
    )
    nodes: Count | None = Field(default=None, description="Number of nodes of the claim; none: any")
    gpus: Count | None = Field(default=None, description="Number of GPUs of each of these nodes; none: any")
    origin: Text = Field(description="Where it is claimed: a contract, a data sheet, a report, with its date")

    @model_validator(mode="after")
    def _has_the_shape_of_its_figure(self) -> Self:
        wanted = {"products": ("format",), "busbw": ("collective", "size")}.get(self.figure, ())
        for leaf in ("format", "collective", "size"):
            if (getattr(self, leaf) is None) == (leaf in wanted):
                rule = "required with" if leaf in wanted else "not a part of"
                raise PydanticCustomError(
                    "shape_of_claim",
                    "`{leaf}` is {rule} `figure: {figure}`",
                    {"leaf": leaf, "rule": rule, "figure": self.figure},
                )
        return self
