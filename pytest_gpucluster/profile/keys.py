"""Which keys a profile may have at a place: read from the model, so that each key is written down once."""

import re
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pydantic

from pytest_gpucluster.plain import names
from pytest_gpucluster.profile import pod_fields
from pytest_gpucluster.profile.model import Profile

LIKE = 0.75
"""How like a required key another one is, of 1, to be taken for it."""

LONGEST = 5
"""So many keys of an empty section are named."""

_LISTED = re.compile(r"\^\(([\w.|-]+)\)\$")
"""A pattern of keys that lists them."""


def allowed(path: Sequence[str]) -> tuple[str, ...]:
    """Return the keys that may stand at a place, () where any may, or where no mapping stands.

    Args:
        path: keys, and numbers of list entries, from the top of the profile.
    """
    if len(path) > 1 and path[0] == "overlay":
        return pod_fields.allowed(path[1], path[2:])
    at = _bare(_at(path))
    if _is_model(at):
        return tuple(key for key in at.model_fields if (at, key) != (Profile, "name"))
    if _is_mapping(at):
        return _listed(get_args(at)[0])
    return ()


def required(path: Sequence[str]) -> tuple[str, ...]:
    """Return the keys that must stand in a section, () for none."""
    at = _bare(_at(path))
    return (
        tuple(key for key, field in at.model_fields.items() if field.is_required()) if _is_model(at) else ()
    )


def values(path: Sequence[str]) -> tuple[str, ...]:
    """Return the values that a leaf may have, () where they cannot be listed."""
    at = _bare(_at(path))
    return tuple(map(str, get_args(at))) if get_origin(at) is Literal else ()


def wanted(path: Sequence[str]) -> str:
    """Return what must stand at a place: the keys of a section, else what the leaf means."""
    below = allowed(path)
    if below:
        return f"a mapping with {', '.join(below[:LONGEST])}{' ...' if len(below) > LONGEST else ''}"
    above = _bare(_at(path[:-1]))
    if not _is_model(above) or path[-1] not in above.model_fields:
        return "a value, or no key"
    text = str(above.model_fields[path[-1]].description or "a value").partition(";")[0]
    first = text.partition(" ")[0]
    # A name such as NCCL keeps its letters.
    return text[:1].lower() + text[1:] if first[1:] == first[1:].lower() else text


def misspelt(missing: str, present: Mapping[str, Any], path: Sequence[str]) -> str | None:
    """Return the key beside a missing one that was meant for it: unknown, and like it.

    Args:
        missing: the key that is not there.
        present: the mapping in which it should stand.
        path: the place of that mapping.
    """
    known = allowed(path)
    unknown = [key for key in present if key not in known]
    near = [key for key in unknown if names.nearest(_plain(key), map(_plain, known)) == _plain(missing)]
    return names.nearest(missing, near, 0.0) or names.nearest(missing, unknown, LIKE)


def _at(path: Sequence[str]) -> Any:
    at: Any = Profile
    for key in path:
        at = _inside(at, key)
    return at


def _plain(key: str) -> str:
    return key.lower().replace("-", "_")


def _inside(at: Any, key: str) -> Any:
    at = _bare(at)
    if _is_model(at):
        return at.model_fields[key].annotation if key in at.model_fields else None
    if _is_mapping(at):
        return get_args(at)[1]
    return get_args(at)[0] if get_origin(at) is tuple else None


def _bare(annotation: Any) -> Any:
    """Return a type without what is said of it beside, and without None."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in {Union, types.UnionType}:
            annotation = next(each for each in get_args(annotation) if each is not type(None))
        else:
            return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel)


def _is_mapping(annotation: Any) -> bool:
    return get_origin(annotation) is Mapping


def _listed(key: Any) -> tuple[str, ...]:
    if get_origin(key) is Literal:
        return tuple(map(str, get_args(key)))
    told = [part for info in get_args(key)[1:] for part in getattr(info, "metadata", ())]
    for pattern in (getattr(part, "pattern", None) for part in told):
        match = _LISTED.fullmatch(str(pattern))
        if match:
            return tuple(match[1].split("|"))
    return ()
