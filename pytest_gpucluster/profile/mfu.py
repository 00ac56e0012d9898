"""What is declared of the speed of GPUs and of training on them."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from pytest_gpucluster.profile.base import Frozen, Seconds, Text

Count = Annotated[int, Field(strict=True, ge=1)]
Rate = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)]
Format = Literal["bf16", "fp16", "tf32", "fp8"]


class ProductFloor(Frozen):
    """The least sustained speed of matrix products, as a share of the dense peak or in TFLOP/s."""

    format: Format = Field(description="Number format")
    share: Share | None = Field(default=None, description="Least share of the GPU's dense peak")
    tflops: Rate | None = Field(default=None, description="Least TFLOP/s of one GPU")
    device: Text | None = Field(
        default=None, description="A part of the GPU's name, such as H100; none: any GPU"
    )
    origin: Text = Field(
        description="Where the floor comes from: a report, a document, or who measured it and when"
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.share is None) == (self.tflops is None):
            raise PydanticCustomError("floor_of_products", "must have either `share` or `tflops`")
        return self


class Training(Frozen):
    """The model to train, and how; sizes that are left out are those of the payload (about 3 billion weights)."""

    nodes: Count = Field(default=1, description="Number of nodes that train together")
    layers: Count | None = Field(default=None, description="Number of layers")
    width: Count | None = Field(default=None, description="Width; a multiple of heads")
    heads: Count | None = Field(default=None, description="Number of attention heads")
    seq: Count | None = Field(default=None, description="Tokens per sequence")
    batch: Count | None = Field(default=None, description="Sequences per GPU and step")
    vocab: Count | None = Field(default=None, description="Size of the vocabulary")
    recompute: Annotated[bool, Field(strict=True)] = Field(
        default=False,
        description="Whether activations are computed again to save memory; this work does not count for the MFU",
    )
    compile: Literal["auto", "yes", "no"] = Field(default="auto", description="Whether torch.compile is used")
    mfu: Share | None = Field(
        default=None, description="Least model FLOPs utilisation; none: measured, not judged"
    )
    origin: Text | None = Field(default=None, description="Where the floor comes from; required with `mfu`")

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.width is not None and self.heads is not None and self.width % self.heads:
            raise PydanticCustomError(
                "width_of_heads", "must be a multiple of `heads` = {heads}", {"heads": self.heads}
            )
        return self

    @model_validator(mode="after")
    def _a_floor_has_its_origin(self) -> Self:
        if (self.mfu is None) != (self.origin is None):
            raise PydanticCustomError(
                "floor_of_training",
                "must have both `mfu` and `origin`, or neither",
                {"leaf": "origin" if self.mfu is None else "mfu"},
            )
        return self


class Mfu(Frozen):
    """How fast GPUs and training on them must be; with an empty mapping they are measured, not judged."""

    device: Literal["gpu", "cpu"] = Field(
        default="gpu",
        description="What is measured; cpu if the cluster has no real GPUs: small sizes, and no floor applies",
    )
    nodes: Count | None = Field(
        default=None,
        description="Number of nodes whose GPUs are measured; none: all nodes that offer them at the start of the run",
    )
    floors: tuple[ProductFloor, ...] = Field(
        default=(), description="Least sustained speeds of matrix products"
    )
    floor_file: Literal["products"] | None = Field(
        default=None, description="Shipped list of floors to use in addition: products"
    )
    spread: Share | None = Field(
        default=None,
        description="Largest difference between GPUs of a node, as a share of the fastest; none: measured, not judged",
    )
    peaks: Mapping[Format, Rate] = Field(
        default={}, description="Dense peaks of one GPU in TFLOP/s, if the shipped list does not have it"
    )
    peaks_origin: Text | None = Field(
        default=None, description="Where these peaks come from; required with `peaks`"
    )
    power_w: Rate | None = Field(
        default=None,
        description="Power limit in watts to which you set the GPUs on purpose; none: the limit of the board",
    )
    seconds: Seconds = Field(
        default=10.0, description="Shortest time to measure products of the first format, in seconds"
    )
    training: Training = Field(default=Training(), description="The model to train, and its floor")
    baseline: Text | None = Field(
        default=None,
        description="report.json of an accepted run on nodes of the same shape; a relative path starts at the "
        "profile's folder; none: no comparison",
    )
    regression: Share = Field(default=0.05, description="Largest loss against the baseline, as a share of it")

    @model_validator(mode="after")
    def _peaks_have_their_origin(self) -> Self:
        if bool(self.peaks) != (self.peaks_origin is not None):
            raise PydanticCustomError(
                "peaks_origin",
                "must have both `peaks` and `peaks_origin`, or neither",
                {"leaf": "peaks" if self.peaks else "peaks_origin"},
            )
        return self
