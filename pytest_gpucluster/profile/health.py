"""What is declared of the health of GPUs."""

from typing import Annotated

from pydantic import Field

from pytest_gpucluster.profile.base import Frozen

Xid = Annotated[int, Field(strict=True, ge=1)]


class Health(Frozen):
    """What is read of the GPUs themselves, and what is passed over."""

    kernel_log: Annotated[bool, Field(strict=True)] = Field(
        default=True,
        description="Whether pods of the run look for errors of GPUs in the kernel's log, if they may",
    )
    passed_over: tuple[Xid, ...] = Field(
        default=(),
        description="Numbers of Xid errors in the kernel's log that you know and pass over, beside those that programs "
        "of users make",
    )
