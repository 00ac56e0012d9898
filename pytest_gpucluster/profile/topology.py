"""What is declared of where nodes are in the network."""

from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen

HOSTNAME = "kubernetes.io/hostname"
"""Label of the finest level there is: one node."""

MOST_LEVELS = 16
"""As many as a Topology of Kueue may have."""

Level = Annotated[str, shapes.LABEL_KEY]


class Topology(Frozen):
    """Declares by which labels nodes tell their place in the network, and which level gangs must not leave."""

    levels: Annotated[tuple[Level, ...], Field(min_length=1, max_length=MOST_LEVELS)] = Field(
        description="Node labels of the levels, coarse to fine, such as example.com/block, example.com/rack; every GPU "
        "node carries all of them; kubernetes.io/hostname may only be the last"
    )
    required: Level | None = Field(
        default=None,
        description="Level within one domain of which a gang must be placed; none: the finest that is not "
        "kubernetes.io/hostname",
    )

    @model_validator(mode="after")
    def _levels_differ(self) -> Self:
        if len(set(self.levels)) < len(self.levels):
            raise PydanticCustomError("level_twice", "must name each level once in `levels`")
        if HOSTNAME in self.levels[:-1]:
            raise PydanticCustomError(
                "hostname_not_last",
                "must name {label} as the last of `levels`, if at all",
                {"label": HOSTNAME},
            )
        if self.required is not None and self.required not in self.levels:
            raise PydanticCustomError(
                "level_unknown",
                "must name one of `levels` as `required`: {levels}",
                {"levels": ", ".join(self.levels)},
            )
        return self

    @property
    def level(self) -> str:
        """Return the level within one domain of which a gang must be placed."""
        above = [label for label in self.levels if label != HOSTNAME]
        return self.required or (above or list(self.levels))[-1]
