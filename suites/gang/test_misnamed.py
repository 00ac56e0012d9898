"""Jobs that name two schedulers."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.gang import scheduler_name

from ..scenarios.misnamed import misnamed as scenario


@requirement(
    "GANG-011",
    level="control",
    documents="R J",
    schedulers=["volcano"],
    scenario=scenario,
    judge=scheduler_name.field_named_control,
)
def test_the_field_that_names_another_scheduler_is_named(settle: Callable[[], None]) -> None:
    """The contrast: one gang, two schedulers.

    If a task template and its Job name different schedulers, the diagnosis MUST name the field at fault.
    """
    settle()
