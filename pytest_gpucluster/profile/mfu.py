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
    """The least sustained speed of matrix products, as part of the dense peak or in TFLOP/s."""

    format: Format = Field(description="Number format")
    share: Share | None = Field(default=None, description="Least part of the GPU's dense peak")
    tflops: Rate | None = Field(default=None, description="Least TFLOP/s of one GPU")
    device: Text | None = Field(
        default=None, description="What the GPU's name has in it, such as H100; none: any"
    )
    origin: Text = Field(description="Where it comes from: a report, a document, who measured it when")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.share is None) == (self.tflops is None):
            raise PydanticCustomError("floor_of_products", "must have either `share` or `tflops`")
        return self


class Training(Frozen):
    """The model that is trained, and how; sizes left out are those of the payload (about 3 billion weights)."""

    nodes: Count = Field(default=1, description="Nodes that train together")
    layers: Count | None = Field(default=None, description="Layers")
    width: Count | None = Field(default=None, description="Width, a multiple of heads")
    heads: Count | None = Field(default=None, description="Heads of attention")
    seq: Count | None = Field(default=None, description="Tokens of a sequence")
    batch: Count | None = Field(default=None, description="Sequences of one GPU in a step")
    vocab: Count | None = Field(default=None, description="Size of the vocabulary")
    recompute: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="Whether activations are computed again to save memory; it earns no MFU"
    )
    compile: Literal["auto", "yes", "no"] = Field(default="auto", description="Whether torch.compile is used")
    mfu: Share | None = Field(
        default=None, description="Least model FLOPs utilisation; none: measured, not judged"
    )
    origin: Text | None = Field(default=None, description="Where the floor comes from; needed with it")

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
    """How fast GPUs must be, and how fast training on them; an empty mapping lets it be measured, not judged."""

    device: Literal["gpu", "cpu"] = Field(
        default="gpu",
        description="What is measured; cpu where GPUs are only pretended: small, and no floor applies",
    )
    nodes: Count | None = Field(
        default=None,
        description="Nodes whose GPUs are measured; none: all that offer them when the run begins",
    )
    floors: tuple[ProductFloor, ...] = Field(
        default=(), description="Least sustained speeds of matrix products"
    )
    floor_file: Literal["products"] | None = Field(
        default=None, description="Shipped list of floors that is used beside these: products"
    )
    spread: Share | None = Field(
        default=None,
        description="Largest difference between GPUs of a node, as part of the fastest; none: measured, not judged",
    )
    peaks: Mapping[Format, Rate] = Field(
        default={}, description="Dense peaks of one GPU in TFLOP/s, where the shipped list does not know it"
    )
    peaks_origin: Text | None = Field(
        default=None, description="Where these peaks come from; needed with them"
    )
    power_w: Rate | None = Field(
        default=None,
        description="Power limit in watts that GPUs are set to on purpose; none: that of the board",
    )
    seconds: Seconds = Field(
        default=10.0, description="Least time for which products of the first format are measured, in seconds"
    )
    training: Training = Field(default=Training(), description="The model that is trained, and its floor")
    baseline: Text | None = Field(
        default=None,
        description="report.json of an accepted run on nodes of the same shape; a relative path starts at the "
        "profile's folder; none: nothing to compare with",
    )
    regression: Share = Field(default=0.05, description="Largest loss against the baseline, as part of it")

    @model_validator(mode="after")
    def _peaks_have_their_origin(self) -> Self:
        if bool(self.peaks) != (self.peaks_origin is not None):
            raise PydanticCustomError(
                "peaks_origin",
                "must have both `peaks` and `peaks_origin`, or neither",
                {"leaf": "peaks" if self.peaks else "peaks_origin"},
            )
        return self
