"""What was read of a cluster, as far as it may be told: without secrets, and of others only what room they take."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.cli.job_snapshot import Collected, Collector, Obj
from pytest_gpucluster.diagnose import Log
from pytest_gpucluster.plain import redact, withheld
from pytest_gpucluster.plain.secret_logs import Lines

_PUBLIC = frozenset({"Node", "Queue", "Namespace", "Event", "Pod"})
"""Kinds of which nobody is a stranger, or whose strangers were made small when they were read."""
_BOXES = ("initContainers", "containers")
_OF_A_BOX = ("name", "resources", "restartPolicy")


def of(found: Collected, collector: Collector) -> Collected:
    """Return what was read, ready to be judged, printed and written."""
    redactor = redact.Redactor()
    objects = [redactor.clean(_without_strangers(obj, collector)) for obj in found.objects]
    logs = [Log(one.pod, one.uid, one.container, _log(one.text), one.previous) for one in found.logs]
    return dataclasses.replace(found, objects=objects, logs=logs, extra=redactor.clean(found.extra))


def _log(text: str) -> str:
    lines = Lines()
    return "\n".join(lines.clean(line) for line in text.splitlines())


def _without_strangers(obj: Obj, collector: Collector) -> Obj:
    """Return an object; of one that is not the subject's what its templates run and how it is labelled is left out."""
    kind = str(obj.get("kind"))
    if kind in _PUBLIC and not (kind == "Pod" and not collector.own(obj)):
        return obj
    metadata = obj.get("metadata") or {}
    name = str(metadata.get("name") or "")
    if (
        name == collector.name
        or name.startswith(f"{collector.name}-")
        or collector.is_subject([str(metadata.get("uid"))])
    ):
        return obj
    told = dict(metadata)
    for key in ("labels", "annotations"):
        if isinstance(told.get(key), Mapping):
            told[key] = withheld.labels(told[key])
    return {**obj, "metadata": told, **({"spec": _room(obj["spec"])} if "spec" in obj else {})}


def _room(value: Any) -> Any:
    """Return a specification whose containers say what they ask for, and nothing of what they run."""
    if isinstance(value, list):
        return [_room(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    made = {key: _room(each) for key, each in value.items()}
    for part in _BOXES:
        if isinstance(value.get(part), list):
            boxes = [one for one in value[part] if isinstance(one, Mapping)]
            made[part] = [{k: one[k] for k in _OF_A_BOX if k in one} for one in boxes]
    if isinstance(made.get("metadata"), Mapping):  # of a template
        made["metadata"] = {
            k: withheld.labels(v) if k == "labels" else v
            for k, v in made["metadata"].items()
            if k != "annotations"
        }
    return made
