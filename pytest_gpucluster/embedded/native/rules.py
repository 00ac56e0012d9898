"""What the API server fills in and refuses: PodGroup, Workload, and `spec.scheduling` of a batch Job."""

from typing import Any

from pytest_gpucluster.embedded import errors
from pytest_gpucluster.embedded.errors import Cause
from pytest_gpucluster.embedded.kinds.known import METADATA, TOP, prune_fields
from pytest_gpucluster.embedded.names import LABEL_RULE, is_label
from pytest_gpucluster.embedded.objects import Obj

MAX_TEMPLATES = 8

_TEMPLATE = frozenset({
    "disruptionMode", "name", "preemptionPolicy", "priority", "priorityClassName", "resourceClaims",
    "schedulingConstraints", "schedulingPolicy",
})  # fmt: skip
_GROUP = (_TEMPLATE - {"name"}) | {"parentCompositePodGroupName", "workloadRef"}
_WORKLOAD = frozenset({"compositePodGroupTemplates", "controllerRef", "podGroupTemplates"})
_JOB_SCHEDULING = frozenset({"disruptionMode", "resourceClaims", "schedulingConstraints", "schedulingPolicy"})
_POLICIES = ("basic", "gang")


def prune_group(group: Obj) -> list[str]:
    """Remove unknown fields of a PodGroup, in place; return their paths."""
    return _prune_top(group) + prune_fields(group.get("spec"), _GROUP, "spec") + _prune_policy(group, "spec")


def prune_workload(workload: Obj) -> list[str]:
    """Remove unknown fields of a Workload, in place; return their paths."""
    spec = workload.get("spec")
    out = _prune_top(workload) + prune_fields(spec, _WORKLOAD, "spec")
    templates = spec.get("podGroupTemplates") if isinstance(spec, dict) else None
    for index, template in enumerate(templates or []):
        path = f"spec.podGroupTemplates[{index}]"
        out += prune_fields(template, _TEMPLATE, path) + _prune_policy({"spec": template}, path)
    return out


def prune_scheduling(job: Obj) -> list[str]:
    """Remove unknown fields of a Job's `spec.scheduling`, in place; return their paths."""
    scheduling = (job.get("spec") or {}).get("scheduling")
    path = "spec.scheduling"
    return prune_fields(scheduling, _JOB_SCHEDULING, path) + _prune_policy({"spec": scheduling}, path)


def _prune_top(obj: Obj) -> list[str]:
    return prune_fields(obj, TOP, "") + prune_fields(obj.get("metadata"), METADATA, "metadata")


def _prune_policy(holder: Obj, path: str) -> list[str]:
    spec = holder.get("spec")
    policy = spec.get("schedulingPolicy") if isinstance(spec, dict) else None
    out = prune_fields(policy, _POLICIES, f"{path}.schedulingPolicy")
    gang = policy.get("gang") if isinstance(policy, dict) else None
    return out + prune_fields(gang, {"minCount"}, f"{path}.schedulingPolicy.gang")


def default_group(group: Obj) -> None:
    """Fill in the defaults of a PodGroup, in place."""
    spec = group.setdefault("spec", {})
    spec.setdefault("disruptionMode", {"single": {}})
    group.setdefault("status", {})


def validate_group(group: Obj, old: Obj | None) -> list[Cause]:
    """Return why a PodGroup is refused."""
    spec = group["spec"]
    before = None if old is None else old["spec"]
    return _policy(spec, before, "spec.schedulingPolicy") + _fixed(spec, before, "spec", _GROUP)


def validate_workload(workload: Obj, old: Obj | None) -> list[Cause]:
    """Return why a Workload is refused."""
    path = "spec.podGroupTemplates"
    spec = workload.get("spec") or {}
    templates = spec.get("podGroupTemplates") or []
    out: list[Cause] = []
    if not templates:
        listed = "`podGroupTemplates`, `compositePodGroupTemplates`"
        out.append(errors.bad_value("spec", "", f"must specify one of: {listed}"))
    if len(templates) > MAX_TEMPLATES:
        text = f"Too many: {len(templates)}: must have at most {MAX_TEMPLATES} items"
        out.append(errors.cause(path, "FieldValueTooMany", text))
    earlier = {t.get("name"): t for t in ((old or {}).get("spec") or {}).get("podGroupTemplates") or []}
    seen: set[str] = set()
    for index, template in enumerate(templates):
        here, name = f"{path}[{index}]", str(template.get("name") or "")
        out += _name(name, f"{here}.name", seen)
        before = earlier.get(name)
        if old is not None and before is None:
            out.append(errors.bad_value(path, name, "field cannot be modified once set"))
        out += _policy(template, before, f"{here}.schedulingPolicy") + _fixed(
            template, before, here, _TEMPLATE
        )
    return out + _fixed(spec, None if old is None else old["spec"], "spec", {"controllerRef"})


def _name(name: str, path: str, seen: set[str]) -> list[Cause]:
    if not name:
        return [errors.required(path)]
    if name in seen:
        return [errors.cause(path, "FieldValueDuplicate", f'Duplicate value: "{name}"')]
    seen.add(name)
    return [] if is_label(name) else [errors.bad_value(path, name, LABEL_RULE)]


def _policy(holder: Obj, before: Obj | None, path: str) -> list[Cause]:
    """Return what is wrong with a policy: exactly one of basic and gang, for ever, and a positive minCount."""
    policy = holder.get("schedulingPolicy") or {}
    stated = [name for name in _POLICIES if policy.get(name) is not None]
    listed = ", ".join(f"`{name}`" for name in _POLICIES)
    if not stated:
        return [errors.bad_value(path, "", f"must specify one of: {listed}")]
    if len(stated) > 1:
        shown = "{" + ", ".join(f"`{name}`" for name in stated) + "}"
        return [errors.bad_value(path, shown, f"must specify exactly one of: {listed}")]
    out: list[Cause] = []
    if before is not None:
        earlier = before.get("schedulingPolicy") or {}
        for name in _POLICIES:
            if (earlier.get(name) is None) != (policy.get(name) is None):
                word = "set once created" if earlier.get(name) is None else "cleared once set"
                out.append(errors.cause(f"{path}.{name}", "FieldValueInvalid", f"field cannot be {word}"))
    if policy.get("gang") is not None:
        out += _min_count(policy["gang"].get("minCount"), f"{path}.gang.minCount")
    return out


def _min_count(value: Any, path: str) -> list[Cause]:
    if value is None:
        return [errors.required(path)]
    if not isinstance(value, int) or value < 1:
        return [errors.bad_value(path, value, "must be greater than or equal to 1")]
    return []


def _fixed(spec: Obj, before: Obj | None, path: str, fields: "frozenset[str] | set[str]") -> list[Cause]:
    if before is None:
        return []
    return [
        errors.bad_value(f"{path}.{field}", str(spec.get(field)), "field is immutable")
        for field in sorted(fields - {"schedulingPolicy"})
        if spec.get(field) != before.get(field)
    ]


def validate_scheduling(job: Obj, old: Obj | None) -> list[Cause]:
    """Return why a Job is refused for its `spec.scheduling`."""
    spec, path = job["spec"], "spec.scheduling.schedulingPolicy"
    before = None if old is None else old["spec"].get("scheduling")
    scheduling = spec.get("scheduling")
    if old is not None and (before is None) != (scheduling is None):
        word = "set once created" if before is None else "cleared once set"
        return [errors.cause("spec.scheduling", "FieldValueInvalid", f"field cannot be {word}")]
    if scheduling is None or scheduling.get("schedulingPolicy") is None:
        return []
    asked = (scheduling["schedulingPolicy"].get("gang") or {}).get("minCount")
    filled = {**scheduling["schedulingPolicy"]}
    if filled.get("gang") is not None and asked is None:
        filled["gang"] = {"minCount": 1}  # it may be left out here: it is then the Job's parallelism
    out = _policy({"schedulingPolicy": filled}, before, path)
    parallelism = int(spec.get("parallelism") or 0)
    if isinstance(asked, int) and asked > parallelism:
        why = f"must not be greater than parallelism ({parallelism})"
        out.append(errors.bad_value(f"{path}.gang.minCount", asked, why))
    return out
