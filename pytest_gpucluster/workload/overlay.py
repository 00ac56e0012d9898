"""The pod overlay: what an operator's cluster wants on every pod (tolerations, pull secrets, mounts, variables ...)."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

Manifest = dict[str, Any]


def apply_overlay(manifest: Manifest, overlay: Mapping[str, Any]) -> Manifest:
    """Return a copy of a manifest with the overlay on every pod template in it.

    `overlay` has the shape of a pod: `metadata.labels`, `metadata.annotations` and `spec`. Maps are merged, the
    overlay wins; lists (tolerations, imagePullSecrets, volumes) are appended. An entry of `spec.containers` without a
    name is laid onto every container, init containers too; one with a name is a further container. Objects without
    pods come back unchanged.
    """
    result = copy.deepcopy(manifest)
    if overlay:
        for metadata, spec in pod_templates(result):
            _merge(metadata, overlay.get("metadata") or {})
            _lay_onto_pod(spec, overlay.get("spec") or {})
    return result


def _lay_onto_pod(pod: Manifest, extra: Mapping[str, Any]) -> None:
    entries = copy.deepcopy(extra.get("containers") or [])
    for_all = [each for each in entries if isinstance(each, dict) and not each.get("name")]
    if not for_all:
        _merge(pod, extra)
        return
    further = [each for each in entries if each not in for_all]
    present = [*(pod.get("initContainers") or []), *(pod.get("containers") or [])]
    for container in [*present, *further]:
        for each in for_all:
            _merge(container, each)
    rest = {key: value for key, value in extra.items() if key != "containers"}
    _merge(pod, {**rest, "containers": further} if further else rest)


def pod_templates(manifest: Manifest) -> Iterator[tuple[Manifest, Manifest]]:
    """Yield (metadata, spec) of every pod that an object would make, ready to be changed in place.

    Those of a Job or a Volcano Job are its template and its tasks'; those of objects that are made of Jobs or of
    several templates (JobSet, LeaderWorkerSet, MPIJob) lie deeper, and are found by the containers in them.
    """
    if manifest.get("kind") == "Pod":
        yield manifest.setdefault("metadata", {}), manifest.setdefault("spec", {})
        return
    spec = manifest.get("spec") or {}
    holders = [task for task in spec.get("tasks") or [] if isinstance(task, dict)]
    holders.append(spec)
    for holder in holders:
        template = holder.get("template")
        if isinstance(template, dict):
            yield template.setdefault("metadata", {}), template.setdefault("spec", {})
    yield from (
        (template.setdefault("metadata", {}), template["spec"])
        for template in _nested(spec)
        if all(template is not holder.get("template") for holder in holders)
    )


def _nested(value: Any) -> list[Manifest]:
    """Return the pod templates below a value, at any depth."""
    if isinstance(value, list):
        return [found for each in value for found in _nested(each)]
    if not isinstance(value, dict):
        return []
    spec = value.get("spec")
    if isinstance(spec, dict) and "containers" in spec:
        return [value]
    return [found for each in value.values() for found in _nested(each)]


def _merge(target: Manifest, extra: Mapping[str, Any]) -> None:
    for key, value in extra.items():
        present = target.get(key)
        if isinstance(present, dict) and isinstance(value, Mapping):
            _merge(present, value)
        elif isinstance(present, list) and isinstance(value, list):
            target[key] = present + [copy.deepcopy(item) for item in value if item not in present]
        else:
            target[key] = copy.deepcopy(value)
