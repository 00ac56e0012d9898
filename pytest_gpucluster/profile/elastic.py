"""What is declared of elastic training: where worlds meet, how small and large they may be, how fast they re-form."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen, Seconds

Count = Annotated[int, Field(strict=True, ge=1)]
Backend = Literal["c10d-store-pod", "etcd-v2", "c10d"]


class Elastic(Frozen):
    """Declares that training may lose and gain workers, and how; an empty mapping takes what stands here.

    Workers save on the volume of `storage.durable`. Without a section `storage`, or with a claim of one node, nothing
    is saved, and ELA-008 is undecided. The time-outs are those of torchrun's rendezvous (`--rdzv-conf`), here shorter
    than its own, with which a lost worker costs 45 s.
    """

    backend: Backend = Field(
        default="c10d-store-pod",
        description="Where membership is kept: c10d-store-pod (a TCPStore in a pod of its own, `is_host=false` in "
        "every worker), etcd-v2 (etcd up to 3.5 with --enable-v2), or c10d (a TCPStore inside the first worker)",
    )
    endpoint: Annotated[str, shapes.ENDPOINT] | None = Field(
        default=None,
        description="HOST:PORT of a store or etcd that you run, as pods reach it; none: each run makes its own",
    )
    min: Count = Field(default=2, description="Fewest workers with which training goes on")
    max: Count = Field(default=3, description="Number of workers of a whole world")
    gpus: Annotated[int, Field(strict=True, ge=0)] = Field(
        default=0, description="GPUs of each worker; 0: training is on CPUs, over gloo"
    )
    max_restarts: Count = Field(
        default=10,
        description="Restarts that each agent of torchrun has; one lost worker can cost a survivor two of them",
    )
    reform: Seconds | None = Field(
        default=None,
        description="Longest time from a change of the workers to the first step of the new world, in seconds; none: "
        "measured, not judged",
    )
    join_timeout: Count = Field(
        default=60, description="Seconds that an agent waits until the smallest world is complete"
    )
    last_call_timeout: Count = Field(
        default=3, description="Seconds that a world of at least `min` waits for further workers"
    )
    keep_alive_interval: Count = Field(default=1, description="Seconds between two signs of life of an agent")
    keep_alive_max_attempt: Count = Field(
        default=3, description="Signs of life that may be missed before an agent counts as lost"
    )

    @model_validator(mode="after")
    def _a_store_inside_has_no_endpoint(self) -> Self:
        if self.backend == "c10d" and self.endpoint is not None:
            raise PydanticCustomError(
                "endpoint_unused",
                "must be left out with `backend: c10d`, whose store is inside the first worker; a TCPStore of yours is "
                "`backend: c10d-store-pod`",
            )
        return self

    @model_validator(mode="after")
    def _a_world_may_wait_as_it_is_told(self) -> Self:
        if self.reform is not None and self.reform <= self.last_call_timeout:
            raise PydanticCustomError(
                "reform_before_last_call",
                "must be more than `last_call_timeout` = {last_call}: a smaller world waits so long before its first "
                "step",
                {"last_call": self.last_call_timeout},
            )
        return self

    @model_validator(mode="after")
    def _a_world_can_shrink(self) -> Self:
        if self.min >= self.max:
            raise PydanticCustomError(
                "world_cannot_shrink", "must be less than `max` = {max}: else nothing can shrink",
                {"max": self.max},
            )  # fmt: skip
        return self
