"""Creating a gang as a scheduler wants it written: one object, or a PodGroup of ours and the pods in it."""

from typing import TYPE_CHECKING, Any

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario.submit import Handle

if TYPE_CHECKING:
    from pytest_gpucluster.scenario.stage import Stage
    from pytest_gpucluster.workload.dialect import Dialect
    from pytest_gpucluster.workload.spec import GangSpec

FOREGROUND = frozenset({names.NATIVE_POD_GROUP})
"""Kinds that are deleted after what they own: a PodGroup stays while unfinished pods name it, and its pods while it
is there."""


def submit(stage: "Stage", dialect: "Dialect", spec: "GangSpec", role: str) -> Handle:
    """Create a gang; where we make its pods ourselves they are owned by the object that asks for the gang.

    Raises:
        WorkloadError: the scheduler cannot express the gang.
    """
    handle = stage.submit(dialect.write(spec), role=role)
    if handle.ok:
        for pod in dialect.members(spec):
            pod["metadata"]["ownerReferences"] = [_owner(handle)]
            if not stage.submit(pod, role=f"{role}-member").ok:
                break  # The judge sees a gang that lacks members, and the answer.
    return handle


def _owner(handle: Handle) -> dict[str, Any]:
    body = handle.body
    kept = {field: body.get(field) for field in ("apiVersion", "kind")}
    return {**kept, "name": handle.name, "uid": handle.uid, "blockOwnerDeletion": True}
