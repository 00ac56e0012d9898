"""Names of JobSet v0.10.1: keys, labels, conditions and reasons, as its API and its events have them."""

import hashlib
from typing import Final

from pytest_gpucluster.embedded.objects import Obj, name_of, namespace_of

VERSION: Final = "v0.10.1"
JOBSET: Final = "JobSet"
JOB: Final = "Job.batch"
SERVICE: Final = "Service"
SYSTEM_NAMESPACE: Final = "jobset-system"
DEPLOYMENT: Final = "jobset-controller-manager"
REPORTER: Final = "jobset"
MANAGER: Final = "jobset.sigs.k8s.io/jobset-controller"

_OWN: Final = "jobset.sigs.k8s.io/"
JOBSET_NAME: Final = f"{_OWN}jobset-name"
JOBSET_UID: Final = f"{_OWN}jobset-uid"
REPLICATED_JOB: Final = f"{_OWN}replicatedjob-name"
REPLICAS: Final = f"{_OWN}replicatedjob-replicas"
ALL_REPLICAS: Final = f"{_OWN}global-replicas"
JOB_INDEX: Final = f"{_OWN}job-index"
GLOBAL_INDEX: Final = f"{_OWN}job-global-index"
JOB_KEY: Final = f"{_OWN}job-key"
GROUP_NAME: Final = f"{_OWN}group-name"
GROUP_REPLICAS: Final = f"{_OWN}group-replicas"
GROUP_INDEX: Final = f"{_OWN}job-group-index"
ATTEMPT: Final = f"{_OWN}restart-attempt"
COORDINATOR: Final = f"{_OWN}coordinator"

COMPLETED: Final = "Completed"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
IN_PROGRESS: Final = "StartupPolicyInProgress"
STARTED: Final = "StartupPolicyCompleted"

ALL, ANY = "All", "Any"
IN_ORDER, ANY_ORDER = "InOrder", "AnyOrder"
RECREATE, BLOCKING_RECREATE = "Recreate", "BlockingRecreate"
READY, COMPLETE = "Ready", "Complete"
FAIL_SET, RESTART_SET = "FailJobSet", "RestartJobSet"
RESTART_UNCOUNTED: Final = "RestartJobSetAndIgnoreMaxRestarts"
ACTIONS: Final = (FAIL_SET, RESTART_SET, RESTART_UNCOUNTED)


def job_name(jobset: Obj, replicated: str, index: int) -> str:
    """Return the name of one Job of a replicated Job."""
    return f"{name_of(jobset)}-{replicated}-{index}"


def subdomain(jobset: Obj) -> str:
    """Return the name of a JobSet's headless Service, which is the subdomain of its pods."""
    return str((jobset["spec"].get("network") or {}).get("subdomain") or name_of(jobset))


def job_key(jobset: Obj, replicated: str, index: int) -> str:
    """Return the label value that tells Jobs of all namespaces apart: the SHA-1 of namespace and name."""
    text = f"{namespace_of(jobset)}/{job_name(jobset, replicated, index)}"
    return hashlib.sha1(text.encode()).hexdigest()  # noqa: S324 - as JobSet makes it


def labels(jobset: Obj, replicated: Obj, index: int) -> dict[str, str]:
    """Return the labels, which are annotations too, of one Job and of its pods."""
    all_of_it = jobset["spec"]["replicatedJobs"]
    before = 0
    for each in all_of_it:
        if each["name"] == replicated["name"]:
            break
        before += int(each["replicas"])
    group = str(replicated.get("groupName") or "default")
    of_group = [each for each in all_of_it if str(each.get("groupName") or "default") == group]
    at = next(n for n, each in enumerate(of_group) if each["name"] == replicated["name"])
    in_group = sum(int(each["replicas"]) for each in of_group[:at])
    found = {
        JOBSET_NAME: name_of(jobset),
        JOBSET_UID: str(jobset["metadata"]["uid"]),
        REPLICATED_JOB: str(replicated["name"]),
        ATTEMPT: str(int((jobset.get("status") or {}).get("restarts") or 0)),
        REPLICAS: str(int(replicated["replicas"])),
        ALL_REPLICAS: str(sum(int(each["replicas"]) for each in all_of_it)),
        JOB_INDEX: str(index),
        JOB_KEY: job_key(jobset, str(replicated["name"]), index),
        GLOBAL_INDEX: str(before + index),
        GROUP_NAME: group,
        GROUP_REPLICAS: str(sum(int(each["replicas"]) for each in of_group)),
        GROUP_INDEX: str(in_group + index),
    }
    coordinator = jobset["spec"].get("coordinator")
    if coordinator:
        place = "-".join(str(coordinator.get(key) or 0) for key in ("jobIndex", "podIndex"))
        found[COORDINATOR] = f"{name_of(jobset)}-{coordinator['replicatedJob']}-{place}.{subdomain(jobset)}"
    return found
