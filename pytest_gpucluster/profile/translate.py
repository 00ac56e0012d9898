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
_SUBJECT = {
    "window_shortened": ["window"],
    "kueue_undeclared": ["kueue"],
    "same_scheduler": ["further_schedulers"],
    "functions_are_gpus": ["numa", "functions"],
    "best_effort_cpus": ["cpus"],
    "width_of_heads": ["width"],
}
"""Type of an error that a model finds in the whole of it -> the leaf that is wrong, below that model."""
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
    "date_type": "must be a date, such as 2027-03-31",
    "date_parsing": "must be a date, such as 2027-03-31",
    "date_from_datetime_parsing": "must be a date, such as 2027-03-31",
    "date_from_datetime_inexact": "must be a date without a time, such as 2027-03-31",
    "too_short": "must not be empty",
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
    source = layers.source_of(".".join([*loc, *_leaf(first)])) or where
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    kind = first["type"]
    if "[key]" in map(str, first["loc"]) and loc[:2] in VARIABLES:
        return ProfileError(source, path, f"is not the name of a variable, such as NCCL_IB_HCA{more}")
    if kind == "extra_forbidden" or "[key]" in map(str, first["loc"]):
        return ProfileError(source, path, f"unknown key{more}", allowed=keys.allowed(loc[:-1]))
    if kind != "missing" and first.get("input") in (None, ""):
        return empty(loc, source, more)
    allowed: tuple[str, ...] = ()
    said = first["msg"]
    problem = _BOUNDS.get(kind, "").format(**first.get("ctx", {})) or _WORDS.get(
        kind, said[:1].lower() + said[1:]
    )
    if kind == "literal_error":
        allowed, problem = _allowed(first), "is not known"
    return ProfileError(source, path, problem + more, value=_value(layers.data, loc), allowed=allowed)


def empty(path: Sequence[str], source: str, more: str = "") -> ProfileError:
    """Return the error of a key without a value: what it wants, or which values it may have.

    Args:
        path: the key.
        source: the file with line, variable or option that says so.
        more: what is said beside.
    """
    values = keys.values(path)
    if values:
        return ProfileError(source, ".".join(path), f"is empty{more}", value="", allowed=values)
    return ProfileError(source, ".".join(path), f"is empty (wanted: {keys.wanted(path)}){more}")


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
    place = [str(part) for part in problem["loc"] if str(part) not in _WHOLE]
    return place + _SUBJECT.get(problem["type"], [])


def _leaf(problem: Any) -> list[str]:
    """Return the leaf that stands without its twin: its line is told."""
    leaf = (problem.get("ctx") or {}).get("leaf")
    return [str(leaf)] if leaf else []


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
