"""What is declared of versions below which a published fix is missing."""

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen, Text

Component = Literal["driver", "toolkit", "runc", "firmware"]
Numbers = Annotated[str, Field(strict=True, pattern=r"^\d+(\.\d+)*$")]


class SecurityFloor(Frozen):
    """The least version of a line of releases."""

    component: Component = Field(
        description="driver, toolkit (NVIDIA Container Toolkit), runc, or firmware of network adapters"
    )
    branch: Numbers | None = Field(
        default=None,
        description="Line of releases: first number of a driver, first two of runc, second of firmware; none: all",
    )
    version: Numbers | None = Field(
        default=None, description="Least version; of firmware from its second number on, such as 43.8002"
    )
    ended: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="Whether the line gets no fixes any more, so that no version is enough"
    )
    advisory: Text = Field(description="Ids of the advisories that ask for it")

    @model_validator(mode="after")
    def _a_version_or_the_end(self) -> Self:
        if (self.version is None) != self.ended:
            raise PydanticCustomError("floor_or_end", "must have either `version` or `ended: true`")
        return self


class Security(Frozen):
    """Floors that are newer than the shipped ones, and where versions stand that nodes do not tell by themselves."""

    dated: dt.date | None = Field(
        default=None, description="Day of the list `floors`, such as 2026-11-30; required with it"
    )
    floors: tuple[SecurityFloor, ...] = Field(
        default=(),
        description="Floors that stand in place of the shipped ones of the same component; none: the shipped ones",
    )
    labels: Mapping[Component, Annotated[str, shapes.LABEL_KEY]] = Field(
        default={},
        description="Node labels with the version of a component, such as runc: example.org/runc-version; none: only "
        "what feature discovery and the GPU Operator show",
    )
    required: tuple[Component, ...] = Field(
        default=("driver",), description="Components whose version must be known on every GPU node"
    )

    @model_validator(mode="after")
    def _a_list_has_its_day(self) -> Self:
        if bool(self.floors) != (self.dated is not None):
            raise PydanticCustomError("undated", "must have both `dated` and `floors`, or neither")
        return self
