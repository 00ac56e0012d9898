"""Turn a validation error into the one line of a profile error."""

from typing import Any, get_args

import pydantic

from pytest_gpucluster.plain import components
from pytest_gpucluster.profile.errors import ProfileError
from pytest_gpucluster.profile.fabric import Fabric, Floor
from pytest_gpucluster.profile.kueue import Kueue
from pytest_gpucluster.profile.layers import Layers
from pytest_gpucluster.profile.mfu import Format, Mfu, ProductFloor, Training
from pytest_gpucluster.profile.model import (
    ADDONS,
    BUDGETS,
    IMAGES,
    OVERLAY,
    Addon,
    Connection,
    Kind,
    Mount,
    Profile,
    Waiver,
)
from pytest_gpucluster.profile.numa import Numa
from pytest_gpucluster.profile.secondary import Secondary

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
    """Return the first problem of a validation error in our words; the number of others is told."""
    problems = error.errors(include_url=False, include_context=True)
    first = problems[0]
    loc = [str(part) for part in first["loc"] if str(part) not in _WHOLE] or _SUBJECT.get(first["type"], [])
    path = ".".join(loc)
    source = layers.source_of(path) or where
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    kind = first["type"]
    if "[key]" in map(str, first["loc"]) and loc[:2] in VARIABLES:
        return ProfileError(source, path, f"is no name of a variable, such as NCCL_IB_HCA{more}")
    if kind == "extra_forbidden" or "[key]" in map(str, first["loc"]):
        return ProfileError(source, path, f"unknown key{more}", allowed=_keys_at(loc[:-1]))
    allowed: tuple[str, ...] = ()
    problem = _BOUNDS.get(kind, "").format(**first.get("ctx", {})) or _WORDS.get(kind, first["msg"].lower())
    if kind == "literal_error":
        allowed, problem = _allowed(first), "is not known"
    return ProfileError(source, path, problem + more, value=_value(layers.data, loc), allowed=allowed)


def _allowed(problem: Any) -> tuple[str, ...]:
    expected = str(problem.get("ctx", {}).get("expected", ""))
    return tuple(part.strip(" '") for part in expected.replace(" or ", ",").split(",") if part.strip(" '"))


def _keys_at(path: list[str]) -> tuple[str, ...]:
    models: dict[str, type[pydantic.BaseModel]] = {
        "": Profile,
        "connection": Connection,
        "waivers": Waiver,
        "kueue": Kueue,
        "kind": Kind,
        "addons": Addon,
        "numa": Numa,
        "fabric": Fabric,
        "secondary": Secondary,
        "mfu": Mfu,
    }
    if path == ["addons"]:
        return ADDONS
    if path[:2] == ["kind", "mounts"]:
        return tuple(Mount.model_fields)
    if path[:2] == ["fabric", "floors"]:
        return tuple(Floor.model_fields)
    if path[:2] == ["mfu", "floors"]:
        return tuple(ProductFloor.model_fields)
    if path[:2] == ["mfu", "training"]:
        return tuple(Training.model_fields)
    if path[:2] == ["mfu", "peaks"]:
        return get_args(Format)
    if path[:1] == ["budgets"]:
        return BUDGETS
    if path[:1] == ["images"]:
        return IMAGES
    if path[:1] == ["overlay"]:
        return OVERLAY
    if path[:1] == ["versions"]:
        return components.NAMES
    if path[:1] == ["namespaces"]:
        return tuple(components.NAMESPACES)
    model = models.get(path[0] if path else "", Profile)
    return tuple(key for key in model.model_fields if key != "name")


def _value(data: Any, loc: list[str]) -> Any:
    for key in loc:
        if isinstance(data, dict) and key in data:
            data = data[key]
        elif isinstance(data, list) and key.isdigit() and int(key) < len(data):
            data = data[int(key)]
        else:
            return None
    return data if isinstance(data, str | int | float | bool) else None
