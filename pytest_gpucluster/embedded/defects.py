"""The defects that can be planted in the control plane: named departures from documented behaviour."""

from collections.abc import Iterable, Mapping
from typing import Final

from pytest_gpucluster.plain.names import did_you_mean
from pytest_gpucluster.plain.planted import Planted

CORE_DEFECTS: Mapping[str, str] = {
    "default-scheduler.gang-aware": (
        "the default scheduler holds the pods of one owner until all its pending pods fit"
    ),
    "access.nodes-hidden": "service accounts of pods may not get nodes, whatever roles and bindings say",
    "admission.foreign-policy": "a policy engine that is none of the schedulers' denies every new Job",
    "lifecycle.job-forgets-finished": (
        "an Indexed Job knows its finished indexes only from the pods that are there"
    ),
}
"""Defects of Kubernetes' own part, with one line on what each does."""

AT_START: Final = frozenset(
    {
        "admission.down",
        "controllers.down",
        "scheduler.down",
        "kueue.absent",
        "kueue.webhook-down",
        "native.gate-off",
        "queue.promises-too-much",
    }
)
"""Defects that decide what is installed and started: they cannot be switched in a control plane that runs."""


def all_defects() -> dict[str, str]:
    """Return every defect of the control plane with its description."""
    from pytest_gpucluster.embedded.kueue.defects import DEFECTS as KUEUE
    from pytest_gpucluster.embedded.native.defects import DEFECTS as NATIVE
    from pytest_gpucluster.embedded.volcano.defects import DEFECTS as VOLCANO

    return {**CORE_DEFECTS, **NATIVE, **VOLCANO, **KUEUE}


def switch(planted: Planted, asked: object) -> list[str]:
    """Put exactly these defects in force in a control plane that runs, and return them.

    Raises:
        ValueError: no list of names, an unknown one, or one that only a new start can plant; one line, nothing changed.
    """
    if not isinstance(asked, list) or not all(isinstance(name, str) for name in asked):
        raise ValueError("defects must be a list of names")
    known = all_defects()
    for name in asked:
        if name not in known:
            raise ValueError(f"unknown defect {name!r} of the control plane{did_you_mean(name, known)}")
    planted.switch(asked)
    return list(planted)


def unknown_defects(asked: Iterable[str]) -> list[str]:
    """Return the asked defects that do not exist."""
    return sorted(set(asked) - set(all_defects()))
