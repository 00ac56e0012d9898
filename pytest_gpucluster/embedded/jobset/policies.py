"""What JobSet's policies say of a set and its Jobs: pure functions of objects."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_gpucluster.embedded.jobset import names
from pytest_gpucluster.embedded.objects import Obj, get_condition, labels_of, name_of


@dataclass
class Children:
    """The Jobs of a set: those of the present attempt by what became of them, and those of earlier ones."""

    active: list[Obj] = field(default_factory=list)
    successful: list[Obj] = field(default_factory=list)
    failed: list[Obj] = field(default_factory=list)
    previous: list[Obj] = field(default_factory=list)

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all that are there."""
        every = (*self.active, *self.successful, *self.failed, *self.previous)
        return frozenset(name_of(job) for job in every)


def is_true(obj: Obj, condition: str) -> bool:
    """Report whether a condition of an object is True."""
    return (get_condition(obj, condition) or {}).get("status") == "True"


def finished(jobset: Obj) -> bool:
    """Report whether a set has completed or failed."""
    return is_true(jobset, names.COMPLETED) or is_true(jobset, names.FAILED)


def children(jobset: Obj, jobs: Sequence[Obj]) -> Children:
    """Sort the Jobs of a set by attempt and end."""
    out = Children()
    attempt = int((jobset.get("status") or {}).get("restarts") or 0)
    for job in jobs:
        if int(labels_of(job).get(names.ATTEMPT, "0")) < attempt:
            out.previous.append(job)
        elif is_true(job, "Failed"):
            out.failed.append(job)
        elif is_true(job, "Complete"):
            out.successful.append(job)
        else:
            out.active.append(job)
    return out


def replicated_of(job: Obj) -> str:
    """Return the name of the replicated Job that a Job is of."""
    return labels_of(job).get(names.REPLICATED_JOB, "")


def counts(jobset: Obj, found: Children) -> list[Obj]:
    """Return the status of each replicated Job, as numbers of Jobs."""
    out = {
        str(each["name"]): dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
        for each in jobset["spec"]["replicatedJobs"]
    }
    for job in found.active:
        status, spec, row = job.get("status") or {}, job["spec"], out[replicated_of(job)]
        wanted = int(spec.get("parallelism") or 1)
        if spec.get("completions") is not None:
            wanted = min(wanted, int(spec["completions"]))
        row["ready"] += int(int(status.get("succeeded") or 0) + int(status.get("ready") or 0) >= wanted)
        row["active"] += int(bool(status.get("active")))
        row["suspended"] += int(bool(spec.get("suspend")))
    for job in found.successful:
        out[replicated_of(job)]["succeeded"] += 1
    for job in found.failed:
        out[replicated_of(job)]["failed"] += 1
    return [{"name": name, **row} for name, row in sorted(out.items(), reverse=True)]


def succeeded(jobset: Obj, successful: Sequence[Obj]) -> bool:
    """Report whether the Jobs that completed are those that the success policy asks for."""
    policy = jobset["spec"]["successPolicy"]
    targets = policy.get("targetReplicatedJobs") or [
        each["name"] for each in jobset["spec"]["replicatedJobs"]
    ]
    counted = sum(replicated_of(job) in targets for job in successful)
    if policy["operator"] == names.ANY:
        return counted >= 1
    wanted = sum(
        int(each["replicas"]) for each in jobset["spec"]["replicatedJobs"] if each["name"] in targets
    )
    return counted >= wanted


def first_failed(failed: Sequence[Obj]) -> Obj:
    """Return the Job that failed first."""
    return min(failed, key=lambda job: str((get_condition(job, "Failed") or {}).get("lastTransitionTime")))


def action(policy: Mapping[str, object], failed: Sequence[Obj]) -> tuple[str, Obj]:
    """Return what the failure policy does, and because of which Job: that of the first rule that fits one."""
    rules = policy.get("rules")
    for rule in rules if isinstance(rules, list) else ():
        fitting = [job for job in failed if _fits(rule, job)]
        if fitting:
            return str(rule["action"]), first_failed(fitting)
    return names.RESTART_SET, first_failed(failed)


def _fits(rule: Obj, job: Obj) -> bool:
    condition = get_condition(job, "Failed") or {}
    reasons = rule.get("onJobFailureReasons") or []
    patterns = rule.get("onJobFailureMessagePatterns") or []
    message = str(condition.get("message") or "")
    targets = rule.get("targetReplicatedJobs") or []
    if reasons and condition.get("reason") not in reasons:
        return False
    if patterns and not any(re.search(each, message) for each in patterns):
        return False
    return bool(not targets or replicated_of(job) in targets)


def started(replicated: Obj, rows: Sequence[Obj]) -> bool:
    """Report whether each Job of a replicated Job is ready, or has ended."""
    row = _row(str(replicated["name"]), rows)
    return bool(int(replicated["replicas"]) == row["failed"] + row["ready"] + row["succeeded"])


def dependencies_met(jobset: Obj, replicated: Obj, rows: Sequence[Obj]) -> bool:
    """Report whether the replicated Jobs that one depends on have come as far as it asks."""
    by_name = {each["name"]: each for each in jobset["spec"]["replicatedJobs"]}
    for one in replicated.get("dependsOn") or []:
        earlier = by_name[one["name"]]
        if one["status"] == names.COMPLETE and _row(one["name"], rows)["succeeded"] != int(
            earlier["replicas"]
        ):
            return False
        if one["status"] == names.READY and not started(earlier, rows):
            return False
    return True


def _row(name: str, rows: Sequence[Obj]) -> Obj:
    return next(row for row in rows if row["name"] == name)
