"""YAML without its traps: core schema of YAML 1.2, duplicate keys refused, each leaf knows its line."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import yaml

from pytest_gpucluster.profile.errors import ProfileError


class _Loader(yaml.SafeLoader):
    """A safe loader that reads scalars by the core schema of YAML 1.2.

    `no`, `on` and `1:30` stay texts, `1e3` is a number. A number with a leading zero stays a text, since YAML 1.1
    reads it as octal and YAML 1.2 as decimal: whoever wanted a number is told.
    """


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^(?:[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+)$", "-+0123456789"),
    (
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+0123456789.",
    ),
    ("merge", r"^(?:<<)$", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))


def _float(_loader: yaml.SafeLoader, node: yaml.Node) -> float:
    text = str(node.value).lower().replace("+.inf", "inf").replace("-.inf", "-inf")
    return float({".inf": "inf", ".nan": "nan"}.get(text, text))


_Loader.add_constructor("tag:yaml.org,2002:float", _float)

_KEY = "while scanning a simple key"
"""Context of the YAML reader's error about a key that no colon follows."""


@dataclasses.dataclass(frozen=True)
class Document:
    """A mapping that was read, and the line of each of its leaves and keys by dotted path."""

    data: dict[str, Any]
    lines: Mapping[str, int]


def read_mapping(text: str, where: str) -> Document:
    """Read a YAML document that must be a mapping with text keys.

    Raises:
        ProfileError: not valid YAML, no mapping, a key twice or a key that is no text; the line is in `where`.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document({}, {})
        lines: dict[str, int] = {}
        _check(node, "", where, lines)
        data = loader.construct_document(node)
    except RecursionError:
        raise ProfileError(where, "", "not valid YAML: nested too deep") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        if error.context == _KEY and error.context_mark is not None:
            # A key without its colon is noticed at the next key, and stands where it began.
            mark = error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ProfileError(
            f"{where}{line}", "", f"not valid YAML: {error.problem or error.context}"
        ) from None
    except yaml.YAMLError as error:
        raise ProfileError(where, "", f"not valid YAML: {' '.join(str(error).split())}") from None
    finally:
        loader.dispose()
    if not isinstance(data, dict):
        raise ProfileError(where, "", "a profile is a mapping of keys to values")
    return Document(data, lines)


def read_value(text: str, where: str, path: str) -> Any:
    """Read one value as it stands after `=` in an override.

    Raises:
        ProfileError: when it is not valid YAML.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return ""
        _check(node, path, where, {})
        return loader.construct_document(node)
    except RecursionError:
        raise ProfileError(where, path, "not valid YAML: nested too deep") from None
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or str(error)
        raise ProfileError(where, path, f"not valid YAML: {problem}", value=text) from None
    finally:
        loader.dispose()


def _check(node: yaml.Node, path: str, where: str, lines: dict[str, int]) -> None:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _check(item, f"{path}.{index}" if path else str(index), where, lines)
        return
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        line = key.start_mark.line + 1
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            raise ProfileError(f"{where}:{line}", path, "a key must be a text: quote it", value=key.value)
        inner = f"{path}.{key.value}" if path else key.value
        if key.value in seen:
            raise ProfileError(
                f"{where}:{line}", inner, f"the key appears twice, first in line {lines[inner]}"
            )
        seen.add(key.value)
        lines[inner] = line
        _check(value, inner, where, lines)
