"""Creating a gang as a scheduler wants it written: one object, perhaps with a PodGroup or with pods of ours."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.scenario.submit import Handle

if TYPE_CHECKING:
    from pytest_gpucluster.workload.protocol import Dialect
    from pytest_gpucluster.workload.spec import GangSpec


def submit(create: Callable[..., Handle], dialect: "Dialect", spec: "GangSpec", role: str) -> Handle:
    """Create a gang and what it needs beside it; pods that we make ourselves are owned by the object that asks for it.

    Args:
        create: takes a manifest and `role`, and says what became of it.
        dialect: how the scheduler wants it written.
        spec: the gang.
        role: subject, blocker, control or what else the scenario calls it.

    Raises:
        WorkloadError: the scheduler cannot express the gang.
    """
    manifest = dialect.write(spec)
    for companion in dialect.before(spec):
        create(companion, role=f"{role}-group")
    handle = create(manifest, role=role)
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
