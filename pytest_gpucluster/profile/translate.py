"""Turn a validation error into the one line of a profile error."""

from collections.abc import Mapping, Sequence
from typing import Any

import pydantic

from pytest_gpucluster.profile import keys
from pytest_gpucluster.profile.errors import ProfileError
from pytest_gpucluster.profile.layers import Layers

_WHOLE = {"[key]"}
VARIABLES = (["fabric", "settings"], ["fabric", "env"])
"""Mappings whose keys are names of variables."""
_SUBJECT = {"window_shortened": ["window"], "kueue_undeclared": ["kueue"]}
_WORDS = {
    "string_type": "must be a text: quote it",
    "string_too_short": "must not be empty",
    "int_type": "must be a whole number, without quotes and without a leading zero",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number, without quotes and without a leading zero",
    "bool_type": "must be true or false",
    "missing": "is missing",
    "greater_than": "must be greater than 0",
    "finite_number": "must be finite",
    "mapping_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "dict_type": "must be a mapping of keys to values",
    "tuple_type": "must be a list",
    "string_pattern_mismatch": "has another shape than it must have",
}

_BOUNDS = {"greater_than_equal": "must be {ge:g} or greater", "less_than_equal": "must be {le:g} or less"}


def translate(error: pydantic.ValidationError, layers: Layers, where: str) -> ProfileError:
    """Return the first problem of a validation error in our words; the number of others is told.

    A key that is missing because it is misspelt is told as that.
    """
    problems = error.errors(include_url=False, include_context=True)
    told = _misspelt(problems, layers, where)
    if told is not None:
        return told
    first = problems[0]
    loc = _place(first)
    path = ".".join(loc)
    source = layers.source_of(path) or where
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    kind = first["type"]
    if "[key]" in map(str, first["loc"]) and loc[:2] in VARIABLES:
        return ProfileError(source, path, f"is no name of a variable, such as NCCL_IB_HCA{more}")
    if kind == "extra_forbidden" or "[key]" in map(str, first["loc"]):
        return ProfileError(source, path, f"unknown key{more}", allowed=keys.allowed(loc[:-1]))
    allowed: tuple[str, ...] = ()
    problem = _BOUNDS.get(kind, "").format(**first.get("ctx", {})) or _WORDS.get(kind, first["msg"].lower())
    if kind == "literal_error":
        allowed, problem = _allowed(first), "is not known"
    return ProfileError(source, path, problem + more, value=_value(layers.data, loc), allowed=allowed)


def misspelt(key: str, missing: str, path: Sequence[str], source: str) -> ProfileError:
    """Return the error of a key that must be there and stands under a name that is almost its own.

    Args:
        key: the key as it stands.
        missing: the key that was meant.
        path: the place of the mapping that holds it.
        source: the file with line, variable or option that says so.
    """
    problem = f"unknown key: {missing!r} is required, and misspelt here"
    return ProfileError(source, ".".join([*path, key]), problem, allowed=keys.allowed(path))


def _misspelt(problems: Sequence[Any], layers: Layers, where: str) -> ProfileError | None:
    for each in problems:
        *path, missing = _place(each) or [""]
        inside = _inside(layers.data, path)
        if each["type"] != "missing" or not isinstance(inside, Mapping):
            continue
        key = keys.misspelt(missing, inside, path)
        if key is not None:
            return misspelt(key, missing, path, layers.source_of(".".join([*path, key])) or where)
    return None


def _place(problem: Any) -> list[str]:
    return [str(part) for part in problem["loc"] if str(part) not in _WHOLE] or _SUBJECT.get(
        problem["type"], []
    )


def _allowed(problem: Any) -> tuple[str, ...]:
    expected = str(problem.get("ctx", {}).get("expected", ""))
    return tuple(part.strip(" '") for part in expected.replace(" or ", ",").split(",") if part.strip(" '"))


def _value(data: Any, loc: Sequence[str]) -> Any:
    found = _inside(data, loc)
    return found if isinstance(found, str | int | float | bool) else None


def _inside(data: Any, loc: Sequence[str]) -> Any:
    for key in loc:
        if isinstance(data, Mapping) and key in data:
            data = data[key]
        elif isinstance(data, list | tuple) and key.isdigit() and int(key) < len(data):
            data = data[int(key)]
        else:
            return None
    return data
