"""Pods: the everyday mistakes that the API server refuses."""

from typing import Any

from pytest_gpucluster.embedded import errors
from pytest_gpucluster.embedded.errors import Cause
from pytest_gpucluster.embedded.names import LABEL_RULE, QUALIFIED_RULE, is_label, is_qualified
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.plain.quantities import QuantityError, parse_quantity

STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_PULL = ("Always", "IfNotPresent", "Never")
_MAY_CHANGE = (
    "spec.containers[*].image,spec.initContainers[*].image,spec.activeDeadlineSeconds,"
    "spec.tolerations (only additions to existing tolerations),"
    "spec.terminationGracePeriodSeconds (allow it to be set to 1 if it was previously negative)"
)


def validate_pod(pod: Obj, old: Obj | None) -> list[Cause]:
    """Return why a pod is refused; an update may change little of its spec."""
    out = validate_pod_spec(pod["spec"], "spec")
    if old is not None and _fixed(pod["spec"], old["spec"]) != _fixed(old["spec"], old["spec"]):
        text = f"Forbidden: pod updates may not change fields other than `{_MAY_CHANGE}`"
        out.append(errors.cause("spec", "FieldValueForbidden", text))
    return out


def _fixed(spec: Obj, old: Obj) -> Obj:
    """Return what must stay of a spec; while a pod is gated its node selector may become narrower."""
    before = old.get("nodeSelector") or {}
    narrower = bool(old.get("schedulingGates")) and before.items() <= (spec.get("nodeSelector") or {}).items()
    free = (
        *(("nodeSelector",) if narrower else ()),
        "activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates",
    )  # fmt: skip
    out = {k: v for k, v in spec.items() if k not in free}
    for kind in ("containers", "initContainers"):
        if kind in out:
            out[kind] = [{k: v for k, v in c.items() if k != "image"} for c in out[kind]]
    return out


def validate_pod_spec(spec: Obj, path: str) -> list[Cause]:
    """Return why a pod spec is refused.

    Args:
        spec: The spec, with defaults filled in.
        path: Where it stands in its object, such as `spec.template.spec`.
    """
    out: list[Cause] = []
    if not spec.get("containers"):
        out.append(errors.required(f"{path}.containers"))
    volumes = [v.get("name") for v in spec.get("volumes") or []]
    out += _names(spec.get("volumes") or [], f"{path}.volumes")
    seen: set[str] = set()
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(kind) or []):
            here = f"{path}.{kind}[{i}]"
            out += _container(container, here, volumes)
            name = container.get("name")
            if name in seen:
                out.append(_duplicate(f"{here}.name", name))
            seen.add(name)
    if spec.get("restartPolicy") not in _RESTART:
        out.append(errors.not_supported(f"{path}.restartPolicy", spec.get("restartPolicy"), sorted(_RESTART)))
    if spec.get("dnsPolicy") not in _DNS:
        out.append(errors.not_supported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), sorted(_DNS)))
    for field in ("hostname", "subdomain"):
        if spec.get(field) and not is_label(spec[field]):
            out.append(errors.bad_value(f"{path}.{field}", spec[field], LABEL_RULE))
    grace = spec.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace < 0:
        out.append(
            errors.bad_value(
                f"{path}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0"
            )
        )
    return out


def _duplicate(field: str, value: Any) -> Cause:
    return errors.cause(field, "FieldValueDuplicate", f'Duplicate value: "{value}"')


def _names(listed: list[Obj], path: str) -> list[Cause]:
    out: list[Cause] = []
    seen: set[str] = set()
    for i, item in enumerate(listed):
        name = item.get("name")
        if not name:
            out.append(errors.required(f"{path}[{i}].name"))
        elif name in seen:
            out.append(_duplicate(f"{path}[{i}].name", name))
        elif not is_label(name):
            out.append(errors.bad_value(f"{path}[{i}].name", name, LABEL_RULE))
        seen.add(str(name))
    return out


def _container(container: Obj, path: str, volumes: list[str | None]) -> list[Cause]:
    out: list[Cause] = []
    name = container.get("name")
    if not name:
        out.append(errors.required(f"{path}.name"))
    elif not is_label(name):
        out.append(errors.bad_value(f"{path}.name", name, LABEL_RULE))
    if not container.get("image"):
        out.append(errors.required(f"{path}.image"))
    policy = container.get("imagePullPolicy")
    if policy not in _PULL:
        out.append(errors.not_supported(f"{path}.imagePullPolicy", policy, sorted(_PULL)))
    for i, env in enumerate(container.get("env") or []):
        if not env.get("name"):
            out.append(errors.required(f"{path}.env[{i}].name"))
    for i, mount in enumerate(container.get("volumeMounts") or []):
        here = f"{path}.volumeMounts[{i}]"
        if not mount.get("mountPath"):
            out.append(errors.required(f"{here}.mountPath"))
        if mount.get("name") not in volumes:
            out.append(
                errors.cause(f"{here}.name", "FieldValueNotFound", f'Not found: "{mount.get("name")}"')
            )
    return out + _resources(container.get("resources") or {}, f"{path}.resources")


def _resources(resources: Obj, path: str) -> list[Cause]:
    out: list[Cause] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for kind, listed in (("limits", limits), ("requests", requests)):
        for name, value in listed.items():
            out += _one_resource(name, value, f"{path}.{kind}")
    for name, value in requests.items():
        if name not in limits:
            if is_extended(name):
                out.append(
                    errors.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
                )
            continue
        request, limit = _parse(value), _parse(limits[name])
        if is_extended(name) and request != limit:
            why = f"must be equal to {name} limit of {limits[name]}"
        elif request > limit:
            why = f"must be less than or equal to {name} limit of {limits[name]}"
        else:
            continue
        out.append(errors.bad_value(f"{path}.requests", str(value), why))
    return out


def _one_resource(name: str, value: Any, path: str) -> list[Cause]:
    here = f"{path}[{name}]"
    if not is_qualified(name):
        return [errors.bad_value(path, name, QUALIFIED_RULE)]
    if "/" not in name and name not in STANDARD_RESOURCES and not name.startswith("hugepages-"):
        return [
            errors.bad_value(here, name, "must be a standard resource type or fully qualified"),
            errors.bad_value(here, name, "must be a standard resource for containers"),
        ]
    amount = _parse(value)
    if amount < 0:
        return [errors.bad_value(here, str(value), "must be greater than or equal to 0")]
    if is_extended(name) and amount.denominator != 1:
        return [errors.bad_value(here, str(value), "must be an integer")]
    return []


def _parse(value: Any) -> Any:
    try:
        return parse_quantity(value)
    except QuantityError:
        why = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        text = f'Pod in version "v1" cannot be handled as a Pod: {why}'
        raise errors.bad_request(text) from None


def is_extended(name: str) -> bool:
    """Report whether a resource is an extended one, such as `nvidia.com/gpu`."""
    return "/" in name and "kubernetes.io/" not in name
