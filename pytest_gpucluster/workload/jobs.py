"""What gangs of batch/v1 Jobs have in common: one role, an index for each member, no plugins and no policies."""

from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.workload.pods import pod_spec
from pytest_gpucluster.workload.spec import GangSpec, Manifest, WorkloadError

INDEX = "JOB_COMPLETION_INDEX"
"""Variable in which the Job controller tells a member its index."""

JOB_LABEL = "batch.kubernetes.io/job-name"
"""Label with the Job's name that its controller puts onto its pods."""

LEADS = {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]}
"""successPolicy by which the end of the first member completes the Job (Kubernetes 1.33 and later)."""


def only_role(spec: GangSpec) -> None:
    """Check that a gang is what an Indexed Job can be.

    Raises:
        WorkloadError: several roles, plugins or policies, which a batch Job does not have.
    """
    if len(spec.roles) != 1:
        raise WorkloadError(
            f"gang {spec.name!r}: an Indexed Job has one role, this gang has {len(spec.roles)}"
        )
    if spec.plugins or spec.policies:
        raise WorkloadError(f"gang {spec.name!r}: an Indexed Job has no job plugins and no job policies")


def indexed_job(spec: GangSpec, scheduler: str, **more: Any) -> Manifest:
    """Return the Indexed Job of a gang of one role.

    Args:
        spec: the gang.
        scheduler: schedulerName of its pods.
        more: further fields of the Job's spec.

    Raises:
        WorkloadError: the gang is no Indexed Job.
    """
    only_role(spec)
    role = spec.roles[0]
    body: dict[str, Any] = {
        "completionMode": "Indexed",
        "parallelism": role.replicas,
        "completions": role.replicas,
        "backoffLimit": spec.max_retry or 0,
        **more,
        "template": {"spec": pod_spec(spec, role, scheduler)},
    }
    if spec.leads or role.ends_job:
        body["successPolicy"] = LEADS
    if spec.time_to_live is not None:
        body["ttlSecondsAfterFinished"] = spec.time_to_live
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": spec.name}, "spec": body}


def ended(obj: Mapping[str, Any]) -> bool:
    """Report whether a batch Job is Complete or Failed."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return any(c.get("type") in ("Complete", "Failed") and c.get("status") == "True" for c in conditions)


def members(spec: Mapping[str, Any]) -> int:
    """Return the pods of a batch Job that exist at the same time."""
    return int(spec.get("parallelism", 1))


def member_host(gang: str, index: int) -> str:
    """Return the host name of a member of an Indexed Job below its headless Service, which bears the gang's name."""
    return f"{gang}-{index}.{gang}"
