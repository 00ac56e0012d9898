"""Payload programs as ConfigMaps: nothing has to be baked into an image."""

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


def read_payload(name: str) -> str:
    """Return the text of a payload program, such as `gang.py`.

    Raises:
        PayloadError: when there is no such program; names those that are there.
    """
    folder = payload_folder()
    path = folder / name
    if not path.is_file():
        known = ", ".join(sorted(p.name for p in folder.glob("*.py") if p.name != "__init__.py"))
        raise PayloadError(f"no payload {name!r} (there are: {known})")
    return path.read_text(encoding="utf-8")


def config_map(name: str, *payloads: str) -> dict[str, Any]:
    """Return a ConfigMap that holds payload programs, one key each."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {payload: read_payload(payload) for payload in payloads},
    }
