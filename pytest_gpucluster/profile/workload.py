"""What is declared of the objects that gangs are written as, beside the scheduler that places them."""

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from pytest_gpucluster.profile.base import Frozen

WorkloadKind = Literal["job", "jobset"]
FurtherKind = Literal["jobset"]


class Workload(Frozen):
    """As what kind of object gangs are written, and which further kinds the cluster serves."""

    kind: WorkloadKind = Field(
        default="job",
        description="As what the rows write their gangs: job (the scheduler's own: a Volcano Job, or a batch Job) or "
        "jobset",
    )
    further: tuple[FurtherKind, ...] = Field(
        default=(),
        description="Other workload kinds whose controllers are installed: their own rows apply, and TRN-003 tries "
        "their gangs under every declared scheduler that they can be written for: jobset",
    )

    @model_validator(mode="after")
    def _further_kinds_are_others(self) -> Self:
        for number, name in enumerate(self.further):
            if name == self.kind or name in self.further[:number]:
                taken = "`kind`" if name == self.kind else "an earlier entry"
                raise PydanticCustomError(
                    "same_workload_kind",
                    "must name another workload kind than {taken} does",
                    {"taken": taken},
                )
        return self

    @property
    def declared(self) -> tuple[str, ...]:
        """Return all workload kinds that the profile declares, the main one first."""
        return (self.kind, *self.further)
