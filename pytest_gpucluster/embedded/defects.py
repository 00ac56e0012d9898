"""The defects with which the control plane can be started: named departures from documented behaviour."""

from collections.abc import Iterable, Mapping

CORE_DEFECTS: Mapping[str, str] = {
    "default-scheduler.gang-aware": (
        "the default scheduler holds the pods of one owner until all its pending pods fit"
    ),
    "access.nodes-hidden": "service accounts of pods may not get nodes, whatever roles and bindings say",
    "lifecycle.job-forgets-finished": (
        "an Indexed Job knows its finished indexes only from the pods that are there"
    ),
}
"""Defects of Kubernetes' own part, with one line on what each does."""


def all_defects() -> dict[str, str]:
    """Return every defect of the control plane with its description."""
    from pytest_gpucluster.embedded.kueue.defects import DEFECTS as KUEUE
    from pytest_gpucluster.embedded.native.defects import DEFECTS as NATIVE
    from pytest_gpucluster.embedded.volcano.defects import DEFECTS as VOLCANO

    return {**CORE_DEFECTS, **NATIVE, **VOLCANO, **KUEUE}


def unknown_defects(asked: Iterable[str]) -> list[str]:
    """Return the asked defects that do not exist."""
    return sorted(set(asked) - set(all_defects()))
