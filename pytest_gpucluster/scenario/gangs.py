"""Creating a gang as a scheduler wants it written: one object, or a PodGroup of ours and the pods in it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.scenario.submit import Handle

if TYPE_CHECKING:
    from pytest_gpucluster.workload.dialect import Dialect
    from pytest_gpucluster.workload.spec import GangSpec


def submit(create: Callable[..., Handle], dialect: "Dialect", spec: "GangSpec", role: str) -> Handle:
    """Create a gang; where we make its pods ourselves they are owned by the object that asks for the gang.

    Args:
        create: takes a manifest and `role`, and says what became of it.
        dialect: how the scheduler wants it written.
        spec: the gang.
        role: subject, blocker, control or what else the scenario calls it.

    Raises:
        WorkloadError: the scheduler cannot express the gang.
    """
    handle = create(dialect.write(spec), role=role)
    if handle.ok:
        for pod in dialect.members(spec):
            pod["metadata"]["ownerReferences"] = [_owner(handle)]
            if not create(pod, role=f"{role}-member").ok:
                break  # The judge sees a gang that lacks members, and the answer.
    return handle


def _owner(handle: Handle) -> dict[str, Any]:
    body = handle.body
    kept = {field: body.get(field) for field in ("apiVersion", "kind")}
    return {**kept, "name": handle.name, "uid": handle.uid, "blockOwnerDeletion": True}
