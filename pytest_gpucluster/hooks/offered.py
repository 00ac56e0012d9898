"""What would keep all rows from being decided: asked once, before the first row."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpucluster.plain import plurals

if TYPE_CHECKING:
    from pytest_gpucluster.hooks.run import Run
    from pytest_gpucluster.requirement import Requirement


MAKE_PODS = ("gang", "pods_run", "slot_nodes")
"""Needs of scenarios that make pods: slots are for pods that take them."""


def check(run: "Run", chosen: Sequence["Requirement"]) -> list[str]:
    """Return what some rows will lack, or what could not be checked, a line each; for a plan all that is wrong.

    Args:
        run: the run.
        chosen: the rows that were selected.

    Raises:
        pytest.UsageError: no row can be decided; says why and what mends it. A plan raises nothing.
    """
    told = run.settings
    if told.reuse is not None:
        return []
    from pytest_gpucluster.scenario import offered

    found = offered.ask(run.loaded)
    missing, lacking = _images(run, chosen)
    ends = [text for text in (found.problem, missing if len(lacking) == len(chosen) > 0 else "") if text]
    if ends and not told.plan:
        raise pytest.UsageError("\n".join(ends))
    return [text for text in (found.problem, found.note, missing) if text]


def _role(needs: Any) -> str:
    """Return which image the pods of a scenario name, "" for none; pods that never run name one, too."""
    if needs is None:
        return ""
    return "torch" if needs.torch else "python" if any(getattr(needs, what) for what in MAKE_PODS) else ""


def _images(run: "Run", chosen: Sequence["Requirement"]) -> tuple[str, list[str]]:
    """Return what is to be said of images that the profile does not name, and the rows that will lack one."""
    from pytest_gpucluster.scenario import offered, programs

    profile = run.loaded.profile
    if profile.provider != offered.EXISTING or profile.nodes != "real":
        return "", []
    lacking: dict[str, list[str]] = {}
    for row in chosen:
        role = _role(getattr(row.scenario, "needs", None))
        if role and role not in profile.images:
            lacking.setdefault(role, []).append(row.id)
    if not lacking:
        return "", []
    rows = list(dict.fromkeys(row for each in lacking.values() for row in each))
    where = str(run.loaded.file or profile.name)
    keys = " and ".join(f"images.{role}" for role in lacking)
    left = f"{rows[0] if len(rows) == 1 else plurals.count(len(rows), 'row')} will not be decided"
    return (
        f"{where}: {keys}: no image is named, so {left}; {programs.no_image_fix(next(iter(lacking)))}",
        rows,
    )
