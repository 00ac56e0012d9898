"""Which keys a pod may have, for the overlay that a profile lays onto every pod.

`pod_fields.json` holds them as the Kubernetes API declares them: type -> field -> type of its value ("" for a plain
one, "*" for a mapping with keys of one's own). `UPDATE_GOLDEN=1 pytest tests/profile` writes it from the installed
client.
"""

import functools
import importlib.resources
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

FREE = "*"
_METADATA = "metadata of a pod"
_ROOTS = {"metadata": _METADATA, "spec": "V1PodSpec"}


def allowed(part: str, path: Sequence[str]) -> tuple[str, ...]:
    """Return the keys that may stand at a place of an overlay, () where any may.

    Args:
        part: `metadata` or `spec`.
        path: keys and numbers of list entries below it.
    """
    at = _ROOTS.get(part, FREE)
    for key in path:
        if at == FREE:
            return ()
        if not key.isdigit():
            at = _types().get(at, {}).get(key, FREE)
    return tuple(_types().get(at, ()))


def unknown(overlay: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the place of each key of an overlay that a pod does not have, from the top of the overlay."""
    for part, value in overlay.items():
        yield from _unknown(value, _ROOTS.get(part, FREE), (part,))


def _unknown(value: Any, kind: str, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _unknown(item, kind, (*path, str(number)))
    elif isinstance(value, Mapping) and kind in _types():
        fields = _types()[kind]
        for key, inner in value.items():
            if key in fields:
                yield from _unknown(inner, fields[key], (*path, key))
            else:
                yield (*path, key)


@functools.cache
def _types() -> Mapping[str, Mapping[str, str]]:
    text = importlib.resources.files(__package__).joinpath("pod_fields.json").read_text(encoding="utf-8")
    return {**json.loads(text), _METADATA: {"annotations": FREE, "labels": FREE}}
