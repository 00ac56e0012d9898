"""What JobSet's schema and webhook fill in and refuse, as v0.10.1 does it."""

import re

from pytest_gpucluster.embedded.admission import AdmissionHook
from pytest_gpucluster.embedded.errors import Cause, bad_value, denied, not_supported, required
from pytest_gpucluster.embedded.jobset import names
from pytest_gpucluster.embedded.kinds.known import prune_fields
from pytest_gpucluster.embedded.objects import Obj, name_of
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.plain.copies import clone

HOOK = "vjobset.kb.io"
SPEC = frozenset({
    "coordinator", "failurePolicy", "managedBy", "network", "replicatedJobs", "startupPolicy", "successPolicy",
    "suspend", "ttlSecondsAfterFinished",
})  # fmt: skip
REASONS = (
    "BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy",
)  # fmt: skip
"""Reasons of a failed Job that a rule may name."""
LONGEST_LABEL = 63
POD_SUFFIX = "-abcde"
"""As long as what the Job controller adds to a pod's name."""
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
LONGEST_RULE_NAME = 128


def prune(jobset: Obj) -> list[str]:
    """Remove the fields that a JobSet does not have, in place, and return their paths."""
    return prune_fields(jobset.get("spec"), SPEC, "spec")


def default(jobset: Obj) -> None:
    """Fill in the schema's defaults, in place."""
    spec = jobset.setdefault("spec", {})
    for replicated in spec.get("replicatedJobs") or []:
        replicated.setdefault("replicas", 1)
        replicated.setdefault("groupName", "default")
    policy = spec.get("failurePolicy")
    if isinstance(policy, dict):
        policy.setdefault("maxRestarts", 0)
        policy.setdefault("restartStrategy", names.RECREATE)


def validate(jobset: Obj, old: Obj | None) -> list[Cause]:
    """Return what the schema refuses: words that are none of the allowed ones, and changed policies."""
    spec = jobset.get("spec") or {}
    out: list[Cause] = []
    for field, allowed in (
        (("successPolicy", "operator"), (names.ALL, names.ANY)),
        (("startupPolicy", "startupPolicyOrder"), (names.ANY_ORDER, names.IN_ORDER)),
        (("failurePolicy", "restartStrategy"), (names.RECREATE, names.BLOCKING_RECREATE)),
    ):
        holder = spec.get(field[0])
        if isinstance(holder, dict) and holder.get(field[1]) not in (None, *allowed):
            out.append(not_supported(f"spec.{'.'.join(field)}", holder[field[1]], allowed))
    for n, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or []):
        if rule.get("action") not in names.ACTIONS:
            out.append(
                not_supported(f"spec.failurePolicy.rules[{n}].action", rule.get("action"), names.ACTIONS)
            )
    for n, replicated in enumerate(spec.get("replicatedJobs") or []):
        if not replicated.get("name"):
            out.append(required(f"spec.replicatedJobs[{n}].name"))
        for m, one in enumerate(replicated.get("dependsOn") or []):
            if one.get("status") not in (names.READY, names.COMPLETE):
                path = f"spec.replicatedJobs[{n}].dependsOn[{m}].status"
                out.append(not_supported(path, one.get("status"), (names.READY, names.COMPLETE)))
    ordered = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == names.IN_ORDER
    if ordered and any(each.get("dependsOn") for each in spec.get("replicatedJobs") or []):
        out.append(bad_value("spec", "object", "StartupPolicy and DependsOn APIs are mutually exclusive"))
    if old is not None:
        before = old.get("spec") or {}
        out += [
            bad_value(f"spec.{field}", "object", "Value is immutable")
            for field in ("successPolicy", "failurePolicy", "startupPolicy", "network")
            if spec.get(field) != before.get(field)
        ]
    return out


def hooks() -> list[AdmissionHook[Store]]:
    """Return the webhook's calls."""
    return [
        AdmissionHook(names.JOBSET, "CREATE", _fill_in, "mutating"),
        AdmissionHook(names.JOBSET, "CREATE", _check, "validating"),
        AdmissionHook(names.JOBSET, "UPDATE", _check_update, "validating"),
    ]


def _fill_in(jobset: Obj, old: Obj | None, store: Store) -> Obj:  # noqa: ARG001
    spec = jobset.setdefault("spec", {})
    spec["successPolicy"] = spec.get("successPolicy") or {"operator": names.ALL}
    spec["startupPolicy"] = spec.get("startupPolicy") or {"startupPolicyOrder": names.ANY_ORDER}
    for replicated in spec.get("replicatedJobs") or []:
        job = replicated.setdefault("template", {}).setdefault("spec", {})
        job.setdefault("completionMode", "Indexed")
        job.setdefault("template", {}).setdefault("spec", {}).setdefault("restartPolicy", "OnFailure")
    network = spec["network"] = dict(spec.get("network") or {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    for n, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or []):
        rule["name"] = rule.get("name") or f"failurePolicyRule{n}"
    return jobset


def _check(jobset: Obj, old: Obj | None, store: Store) -> Obj:  # noqa: ARG001
    spec = jobset["spec"]
    replicated = spec.get("replicatedJobs") or []
    known = [str(each.get("name")) for each in replicated]
    found = [*_names(jobset, replicated), *_order(replicated)]
    targets = (spec.get("successPolicy") or {}).get("targetReplicatedJobs") or []
    found += [
        f"invalid replicatedJob name '{each}' does not appear in .spec.ReplicatedJobs"
        for each in targets
        if each not in known
    ]
    found += _failure_policy(spec.get("failurePolicy") or {}, known)
    _refuse(found)
    return jobset


def _names(jobset: Obj, replicated: list[Obj]) -> list[str]:
    found = []
    subdomain = (jobset["spec"].get("network") or {}).get("subdomain")
    if subdomain and (not _LABEL.fullmatch(subdomain) or len(subdomain) > LONGEST_LABEL):
        found.append(f'spec.network.subdomain: Invalid value: "{subdomain}": must be a DNS-1035 label')
    for n, each in enumerate(replicated):
        last = names.job_name(jobset, str(each.get("name")), int(each.get("replicas", 1)) - 1)
        path = f"spec.replicatedJobs[{n}].name"
        completions = each["template"]["spec"].get("completions")
        if len(last) > LONGEST_LABEL:
            why = "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"
            found.append(f'{path}: Invalid value: "{last}": {why}')
        elif completions is not None and len(f"{last}-{int(completions) - 1}{POD_SUFFIX}") > LONGEST_LABEL:
            why = "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
            found.append(f'{path}: Invalid value: "{last}": {why}')
        elif not _LABEL.fullmatch(last):
            found.append(f'{path}: Invalid value: "{last}": must be a DNS-1035 label')
    return found


def _order(replicated: list[Obj]) -> list[str]:
    found, before = [], set()
    if replicated and replicated[0].get("dependsOn"):
        found.append("DependsOn can't be set for the first ReplicatedJob")
    for each in replicated:
        before.add(str(each.get("name")))
        found += [
            f"replicatedJob: {each['name']} cannot depend on replicatedJob: {one['name']}"
            for one in each.get("dependsOn") or []
            if one["name"] not in before
        ]
    return found


def _failure_policy(policy: Obj, known: list[str]) -> list[str]:
    found: list[str] = []
    rules = policy.get("rules") or []
    for rule in rules:
        name = str(rule.get("name") or "")
        if not _RULE_NAME.fullmatch(name) or len(name) > LONGEST_RULE_NAME:
            found.append(f"invalid failure policy rule name '{name}'")
        found += [
            f"invalid replicatedJob name '{each}' in failure policy does not appear in .spec.ReplicatedJobs"
            for each in rule.get("targetReplicatedJobs") or []
            if each not in known
        ]
        found += [
            f"invalid job failure reason '{each}' in failure policy is not a recognized job failure reason"
            for each in rule.get("onJobFailureReasons") or []
            if each not in REASONS
        ]
    called = [str(rule.get("name")) for rule in rules]
    for name in sorted({each for each in called if called.count(each) > 1}):
        where = [n for n, each in enumerate(called) if each == name]
        found.append(f"rule names are not unique, rules with indices {where} all have the same name '{name}'")
    return found


def _check_update(jobset: Obj, old: Obj | None, store: Store) -> Obj:  # noqa: ARG001
    """Refuse a change of replicated Jobs, but for what Kueue changes in pod templates of suspended sets."""
    assert old is not None  # noqa: S101 (an update has both)
    spec, before = clone(jobset["spec"]), clone(old["spec"])
    if spec.get("suspend") or before.get("suspend"):
        for each in (*(spec.get("replicatedJobs") or []), *(before.get("replicatedJobs") or [])):
            template = each["template"]["spec"]["template"]
            meta = template.get("metadata") or {}
            for field in ("labels", "annotations"):
                meta.pop(field, None)
            template["metadata"] = meta
            for field in ("nodeSelector", "tolerations", "schedulingGates"):
                template["spec"].pop(field, None)
    found = [
        f'spec.{field}: Invalid value: "{name_of(jobset)}": field is immutable'
        for field in ("replicatedJobs", "managedBy")
        if spec.get(field) != before.get(field)
    ]
    _refuse(found)
    return jobset


def _refuse(found: list[str]) -> None:
    """Refuse with every complaint in one message.

    Raises:
        ApiError: 403.
    """
    if found:
        raise denied(HOOK, "\n".join(found))
