"""Turn a validation error into the one line of a profile error."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pydantic

from pytest_gpucluster.profile import keys
from pytest_gpucluster.profile.errors import ProfileError
from pytest_gpucluster.profile.layers import Layers

_WHOLE = {"[key]"}
VARIABLES = (["fabric", "settings"], ["fabric", "env"])
"""Mappings whose keys are names of variables."""
MOVED = {
    "elastic.checkpoints": "is no key any more, elastic jobs save on the volume of storage.durable: write "
    "{source: claim, name: NAME} there for `claim: NAME`, {source: host_path, name: PATH} for `path: PATH`",
}
"""Keys that earlier versions had: what became of each."""
_SUBJECT = {
    "window_shortened": ["window"],
    "kueue_undeclared": ["kueue"],
    "same_scheduler": ["further_schedulers"],
    "same_workload_kind": ["further"],
    "no_such_combination": ["workload", "kind"],
    "functions_are_gpus": ["numa", "functions"],
    "adapters_are_gpus": ["rdma", "resource"],
    "best_effort_cpus": ["cpus"],
    "width_of_heads": ["width"],
    "world_cannot_shrink": ["min"],
    "endpoint_unused": ["endpoint"],
    "reform_before_last_call": ["reform"],
    "volume_name": ["name"],
    "durable_empty_dir": ["durable", "source"],
    "durable_of_one_node": ["durable", "access"],
    "local_claim": ["local", "source"],
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


def translate(
    error: pydantic.ValidationError, layers: Layers, where: str, known: Collection[str] = ()
) -> list[ProfileError]:
    """Return the problems of a validation error in our words, one for each place.

    A key that is missing because it is misspelt is told as that.

    Args:
        error: what the model says.
        layers: the profile's values, with where each comes from.
        where: the profile.
        known: dotted paths of which a mistake is told already.
    """
    problems = error.errors(include_url=False, include_context=True)
    found: dict[str, ProfileError] = {}
    told = set(known)
    for each in problems:
        wrong = _misspelt(each, layers, where)
        if wrong is not None and not wrong.paths & told:
            found[wrong.path] = wrong
            told |= wrong.paths
    for each in problems:
        path = ".".join(_place(each))
        if path not in told:
            found[path] = _problem(each, layers, where)
            told.add(path)
    return list(found.values())


def _problem(each: Any, layers: Layers, where: str) -> ProfileError:
    """Return one problem in our words."""
    loc, kind = _place(each), each["type"]
    path = ".".join(loc)
    source = layers.source_of(".".join([*loc, *_leaf(each)])) or where
    if "[key]" in map(str, each["loc"]) and loc[:2] in VARIABLES:
        return ProfileError(source, path, "is not the name of a variable, such as NCCL_IB_HCA")
    if kind == "extra_forbidden" and path in MOVED:
        return ProfileError(source, path, MOVED[path])
    if kind == "extra_forbidden" or "[key]" in map(str, each["loc"]):
        return ProfileError(source, path, "unknown key", allowed=keys.allowed(loc[:-1]))
    if kind != "missing" and each.get("input") in (None, ""):
        return empty(loc, source)
    allowed: tuple[str, ...] = ()
    said = each["msg"]
    problem = _BOUNDS.get(kind, "").format(**each.get("ctx", {})) or _WORDS.get(
        kind, said[:1].lower() + said[1:]
    )
    if kind == "literal_error":
        allowed, problem = _allowed(each), "is not known"
    return ProfileError(source, path, problem, value=_value(layers.data, loc), allowed=allowed)


def empty(path: Sequence[str], source: str) -> ProfileError:
    """Return the error of a key without a value: what it wants, or which values it may have.

    Args:
        path: the key.
        source: the file with line, variable or option that says so.
    """
    values = keys.values(path)
    if values:
        return ProfileError(source, ".".join(path), "is empty", value="", allowed=values)
    return ProfileError(source, ".".join(path), f"is empty (wanted: {keys.wanted(path)})")


def misspelt(key: str, missing: str, path: Sequence[str], source: str) -> ProfileError:
    """Return the error of a key that must be there and stands under a name that is almost its own.

    Args:
        key: the key as it stands.
        missing: the key that was meant.
        path: the place of the mapping that holds it.
        source: the file with line, variable or option that says so.
    """
    problem = f"unknown key: {missing!r} is required, and misspelt here"
    meant = ".".join([*path, missing])
    return ProfileError(source, ".".join([*path, key]), problem, allowed=keys.allowed(path), meant=meant)


def _misspelt(each: Any, layers: Layers, where: str) -> ProfileError | None:
    """Return the error of a key that is missing under its own name and there under another, None for other problems."""
    *path, missing = _place(each) or [""]
    inside = _inside(layers.data, path)
    if each["type"] != "missing" or not isinstance(inside, Mapping):
        return None
    key = keys.misspelt(missing, inside, path)
    if key is None:
        return None
    return misspelt(key, missing, path, layers.source_of(".".join([*path, key])) or where)


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
