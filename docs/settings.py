"""The reference pages of what can be set: profile keys, and options with their twins; `docs.generate` writes them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpucluster.hooks import table
from pytest_gpucluster.profile import schema

Schema = Mapping[str, Any]

PROFILE_HEAD = """# Profile keys

Generated from the model. A profile is a file `clusters/NAME.yaml` in the project, or in a folder that
`--gpucluster-profiles` names. You can also set a leaf with a variable (`GPUCLUSTER_FABRIC__NODES=2`), with the ini
setting `gpucluster_set`, or with `--gpucluster-set fabric.nodes=2`. If several of these set it, the last one in this
list wins. `gpucluster describe profile --cluster NAME` shows each value with its source. An unknown key is an error,
and so is a value that is not allowed.
"""

OPTIONS_HEAD = """# Options

Generated from the table. The command line wins over the ini setting, and the ini setting wins over the variable.
"""


def profile_page() -> str:
    """Return the page of all profile keys: type, default, meaning."""
    whole = schema.file_schema()
    required = set(whole["else"]["required"])
    return PROFILE_HEAD + "\n".join(_tables("", whole, whole["$defs"], required)) + "\n"


def _tables(path: str, model: Schema, models: Schema, required: set[str]) -> Iterator[str]:
    """Yield the table of a model's keys, then those of the models that it is made of."""
    yield f"\n## {path or 'The file'}\n"
    yield "| key | value | default | meaning |"
    yield "| --- | --- | --- | --- |"
    parts: list[tuple[str, str]] = []
    for key, value in model["properties"].items():
        kinds = list(dict.fromkeys(_kinds(value)))
        default = "required" if key in required else _default(value)
        meaning = " ".join(str(value.get("description", "")).split())
        yield f"| `{key}` | {_cell(', '.join(kinds))} | {_cell(default)} | {_cell(meaning)} |"
        parts += [(f"{path}.{key}{end}".lstrip("."), name) for name, end in _models(value, "")]
    for inner, name in parts:
        yield from _tables(inner, models[name], models, set(models[name].get("required", ())))


def _kinds(value: Schema) -> Iterator[str]:
    """Yield what a value may be, in words."""
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


def _default(value: Schema) -> str:
    if "default" not in value:
        return "required"
    default = value["default"]
    if default in (None, [], {}, ""):
        return "none"
    return f"`{json.dumps(default)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def options_page() -> str:
    """Return the page of all options of pytest with their ini settings and variables."""
    lines = ["", "| option | ini | variable | meaning |", "| --- | --- | --- | --- |"]
    for option in table.OPTIONS:
        value = f" {option.metavar}" if option.metavar else ""
        env = f"`{option.env}`" if option.env else "`GPUCLUSTER_` and the path"
        lines.append(f"| `{option.flag}{value}` | `{option.ini}` | {env} | {_cell(option.help)} |")
    lines.append(f"| | `{table.SUITES}` | | {_cell(table.SUITES_HELP)} |")
    return OPTIONS_HEAD + "\n".join(lines) + "\n"
