"""All keys of a profile as a reader wants them: path, value in words, default, meaning; read from the schema."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpucluster.profile import schema

Schema = Mapping[str, Any]

REQUIRED = "required"


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of the profile.

    Attributes:
        path: dotted; a list ends with `[]`, any name in a map is `NAME`.
        value: its schema.
        required: it must be there if its section is.
    """

    path: str
    value: Schema
    required: bool

    @property
    def kind(self) -> str:
        """Return what the value may be, in words."""
        return ", ".join(dict.fromkeys(_kinds(self.value)))

    @property
    def default(self) -> Any:
        """Return what it is if it is left out."""
        return self.value.get("default")

    @property
    def default_told(self) -> str:
        """Return the default in words: `required`, `none` or the value between backticks."""
        if self.required or "default" not in self.value:
            return REQUIRED
        return "none" if self.default in (None, [], {}, "") else f"`{json.dumps(self.default)}`"

    @property
    def meaning(self) -> str:
        """Return what it means."""
        return str(self.value.get("description", ""))

    @property
    def may_be_empty(self) -> bool:
        """Report whether it is nothing if it is left out."""
        there = not self.required and "default" in self.value and "[]" not in self.path
        return there and self.default in (None, [], {})


@dataclasses.dataclass(frozen=True)
class Section:
    """The keys of one mapping.

    Attributes:
        path: its place, "" for the file itself.
        keys: what may stand in it.
    """

    path: str
    keys: tuple[Key, ...]


def sections() -> tuple[Section, ...]:
    """Return every mapping of a profile file, each after the one that holds it."""
    whole = schema.file_schema()
    return tuple(_sections("", whole, whole["$defs"], set(whole["else"]["required"])))


def _sections(path: str, model: Schema, models: Schema, required: set[str]) -> Iterator[Section]:
    prefix = f"{path}." if path else ""
    keys = [Key(f"{prefix}{key}", value, key in required) for key, value in model["properties"].items()]
    yield Section(path, tuple(keys))
    for key in keys:
        for name, end in _models(key.value, ""):
            yield from _sections(key.path + end, models[name], models, set(models[name].get("required", ())))


def _kinds(value: Schema) -> Iterator[str]:
    if "anyOf" in value:
        for each in value["anyOf"]:
            if each.get("type") != "null":
                yield from _kinds(each)
    elif "$ref" in value:
        yield "a section"
    elif "enum" in value or "const" in value:
        yield " or ".join(f"`{each}`" for each in value.get("enum", [value.get("const")]))
    elif value.get("type") == "array":
        yield f"list of {', '.join(_kinds(value.get('items') or {}))}"
    elif value.get("type") == "object":
        inner = [*(value.get("patternProperties") or {}).items()] or [("", value.get("additionalProperties"))]
        for names, each in inner:
            listed = names.removeprefix("^(").removesuffix(")$").split("|")
            words = f" by name ({', '.join(f'`{each}`' for each in listed)})" if "(" in names else ""
            yield f"map of {', '.join(_kinds(each)) if isinstance(each, dict) else 'anything'}{words}"
    else:
        yield _plain(value)


def _plain(value: Schema) -> str:
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}
    kind = words.get(str(value.get("type")), "anything")
    bounds = [
        f"{sign} {value[name]:g}"
        for name, sign in (
            ("minimum", "at least"),
            ("exclusiveMinimum", "more than"),
            ("maximum", "at most"),
            ("exclusiveMaximum", "less than"),
        )
        if name in value
    ]
    return f"{kind}, {' and '.join(bounds)}" if bounds else kind


def _models(value: Schema, end: str) -> Iterator[tuple[str, str]]:
    """Yield the models that a value is made of, with what their path ends with."""
    if "$ref" in value:
        yield str(value["$ref"]).rpartition("/")[2], end
    for each in value.get("anyOf") or ():
        yield from _models(each, end)
    if isinstance(value.get("items"), dict):
        yield from _models(value["items"], f"{end}[]")
    for each in [*(value.get("patternProperties") or {}).values(), value.get("additionalProperties")]:
        if isinstance(each, dict):
            yield from _models(each, f"{end}.NAME")
