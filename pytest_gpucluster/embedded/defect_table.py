"""The defects of all parts of the control plane, and which of them are in force."""

from collections.abc import Iterable, Mapping

from pytest_gpucluster.embedded.defects import AT_START, CORE_DEFECTS
from pytest_gpucluster.embedded.jobset import defects as jobset
from pytest_gpucluster.embedded.kueue import defects as kueue
from pytest_gpucluster.embedded.native import defects as native
from pytest_gpucluster.embedded.volcano import defects as volcano
from pytest_gpucluster.plain.names import did_you_mean
from pytest_gpucluster.plain.planted import Planted

__all__ = ["AT_START", "DEFECTS", "switch", "unknown_defects"]

DEFECTS: Mapping[str, str] = {
    **CORE_DEFECTS,
    **native.DEFECTS,
    **volcano.DEFECTS,
    **kueue.DEFECTS,
    **jobset.DEFECTS,
}
"""Every defect of the control plane with its description."""


def switch(planted: Planted, asked: object) -> list[str]:
    """Put exactly these defects in force in a control plane that runs, and return them.

    Raises:
        ValueError: no list of names, an unknown one, or one that only a new start can plant; one line, nothing changed.
    """
    if not isinstance(asked, list) or not all(isinstance(name, str) for name in asked):
        raise ValueError("defects must be a list of names")
    for name in asked:
        if name not in DEFECTS:
            raise ValueError(f"unknown defect {name!r} of the control plane{did_you_mean(name, DEFECTS)}")
    planted.switch(asked)
    return list(planted)


def unknown_defects(asked: Iterable[str]) -> list[str]:
    """Return the asked defects that do not exist."""
    return sorted(set(asked) - set(DEFECTS))
