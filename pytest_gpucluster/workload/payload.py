"""Payload programs as ConfigMaps: nothing has to be baked into an image."""

import ast
import functools
import pathlib
from typing import Any


class PayloadError(Exception):
    """A payload file is not where it should be."""


def payload_folder() -> pathlib.Path:
    """Return the folder of the payload programs, in a checkout or in an installed package.

    Raises:
        PayloadError: when neither is there.
    """
    package = pathlib.Path(__file__).resolve().parent.parent
    for folder in (package / "payloads", package.parent / "payloads"):
        if (folder / "gang.py").is_file():
            return folder
    raise PayloadError(f"payload programs not found: no folder payloads/ in or beside {package}")


def payload_files(*names: str) -> dict[str, str]:
    """Return name -> text of payload programs, such as `gang.py`, and of the files beside them that they import.

    Raises:
        PayloadError: when there is no such program; names those that are there.
    """
    folder = payload_folder()
    found: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found[name] = _read(folder, name)
            waiting += _imported(folder, found[name])
    return found


def config_map(name: str, *payloads: str) -> dict[str, Any]:
    """Return a ConfigMap that holds payload programs and what they share, one key per file."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": payload_files(*payloads),
    }


def _read(folder: pathlib.Path, name: str) -> str:
    path = folder / name
    if not path.is_file():
        known = ", ".join(sorted(p.name for p in folder.glob("*.py") if p.name != "__init__.py"))
        raise PayloadError(f"no payload {name!r} (there are: {known})")
    return path.read_text(encoding="utf-8")


@functools.cache
def _imported(folder: pathlib.Path, text: str) -> tuple[str, ...]:
    """Return the files of a folder that a program imports, in order."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.append(node.module)
    return tuple(file for module in modules if (folder / (file := f"{module}.py")).is_file())
