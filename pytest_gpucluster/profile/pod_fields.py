"""Which keys a pod may have, and values of which kind, for the overlay that a profile lays onto every pod.

`pod_fields.json` holds them as the Kubernetes API declares them: type -> field -> type of its value (`str`, `int`,
`bool`, `any`, the name of a type, `[]` before that of a list's entries, `*` for a mapping with keys of one's own).
`UPDATE_GOLDEN=1 pytest tests/profile` writes it from the installed client.
"""

import dataclasses
import functools
import importlib.resources
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.profile import pod_words, shapes

FREE = "*"
LIST = "[]"
ANY = "any"
PAGE = "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/"
"""What lists the keys of a pod."""

_METADATA = "metadata of a pod"
_ROOTS = {"metadata": _METADATA, "spec": "V1PodSpec"}
_PLAIN: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "str": (str, "must be a text: quote it"),
    "int": (int, "must be a whole number, without quotes"),
    "bool": (bool, "must be true or false"),
}
_EMPTY = "is empty: give it a value, or leave the key out"
Path = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Problem:
    """What is wrong in an overlay, at a path of keys and numbers of list entries from its top."""

    path: Path
    text: str
    value: Any = None
    allowed: tuple[str, ...] = ()
    page: str = ""


def allowed(part: str, path: Sequence[str]) -> tuple[str, ...]:
    """Return the keys that may stand at a place of an overlay, () where any may.

    Args:
        part: `metadata` or `spec`.
        path: keys and numbers of list entries below it.
    """
    at = _ROOTS.get(part, FREE)
    for key in path:
        at = at.removeprefix(LIST) if key.isdigit() else _types().get(at, {}).get(key, FREE)
    return tuple(_types().get(at.removeprefix(LIST), ()))


def problems(overlay: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what the API server would drop or refuse of an overlay: keys first, then values."""
    found = [each for part, value in overlay.items() for each in _of(value, _ROOTS.get(part, FREE), (part,))]
    yield from (each for each in found if each.page)
    yield from (each for each in found if not each.page)


def _of(value: Any, kind: str, path: Path) -> Iterator[Problem]:
    if value is None:
        yield Problem(path, _EMPTY)
    elif kind.startswith(LIST):
        if not isinstance(value, list | tuple):
            yield Problem(path, "must be a list", value)
            return
        for number, item in enumerate(value):
            yield from _of(item, kind.removeprefix(LIST), (*path, str(number)))
    elif kind in _types() or kind == FREE:
        if not isinstance(value, Mapping):
            yield Problem(path, "must be a mapping of keys to values", value)
        elif kind == FREE:
            yield from _free(value, path)
        else:
            yield from _object(value, kind, path)
    elif kind in _PLAIN and path[-1] not in pod_words.NUMBERS:
        yield from _plain(value, kind, path)


def _object(value: Mapping[str, Any], kind: str, path: Path) -> Iterator[Problem]:
    fields = _types()[kind]
    for key, inner in value.items():
        place = (*path, key)
        if key not in fields:
            yield Problem(place, "unknown key of a pod", None, tuple(fields), PAGE)
        elif kind == "V1PodSpec" and key in pod_words.TAKEN:
            yield Problem(place, pod_words.TAKEN[key], inner)
        else:
            wrong = list(_of(inner, fields[key], place))
            yield from wrong
            if not wrong and isinstance(inner, str):
                yield from _worded(inner, kind, place)
    for key, text in pod_words.odd(kind, value):
        yield Problem((*path, key) if key else path, text, value.get(key))


def _worded(text: str, kind: str, path: Path) -> Iterator[Problem]:
    words = pod_words.WORDS.get(kind, {}).get(path[-1], ())
    if words and text not in words:
        yield Problem(path, "is not known", text, words)
    shape = pod_words.SHAPES.get(kind, {}).get(path[-1])
    problem = shape.problem(text) if shape is not None and text else ""
    if problem:
        yield Problem(path, problem, text)


def _free(value: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    for key, inner in value.items():
        place = (*path, key)
        if path[-1] in pod_words.NUMBERS:
            continue
        if path[-1] in pod_words.LABELS | pod_words.NAMED:
            problem = shapes.LABEL_KEY.problem(key)
            if problem:
                yield Problem(place, f"the key {problem}")
                continue
        if inner is None:
            yield Problem(place, _EMPTY)
        elif not isinstance(inner, str):
            yield Problem(place, _PLAIN["str"][1], inner)
        elif path[-1] in pod_words.LABELS:
            problem = shapes.LABEL_VALUE.problem(inner)
            if problem:
                yield Problem(place, problem, inner)


def _plain(value: Any, kind: str, path: Path) -> Iterator[Problem]:
    wanted, text = _PLAIN[kind]
    if not isinstance(value, wanted) or (kind == "int" and isinstance(value, bool)):
        yield Problem(path, text, value)


@functools.cache
def _types() -> Mapping[str, Mapping[str, str]]:
    text = importlib.resources.files(__package__).joinpath("pod_fields.json").read_text(encoding="utf-8")
    return {**json.loads(text), _METADATA: {"annotations": FREE, "labels": FREE}}
