"""Asks the image in which it runs whether a rendezvous backend can be used: the packages, imported one by one.

It comes before torchrun in a worker, which otherwise ends with the text of whatever is missing first. Standard library
only; torch itself is found, not imported, for the agent that follows imports it. Ends with 3 where something is
missing. Lines as in `lines.py`.
"""

import importlib
import importlib.metadata
import importlib.util
import sys

from lines import say

IMPORTED = {"etcd-v2": ("urllib3", "etcd")}
"""Backend -> modules that it needs beside torch."""
DISTRIBUTION = {"etcd": "python-etcd"}
"""Module -> package that brings it, where the names differ."""


def version(package: str) -> str:
    """Return the version of a package, or "" where it has none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def main() -> int:
    """Look, and tell."""
    backend = sys.argv[1]
    modules, missing = {}, {}
    for name in IMPORTED.get(backend, ()):
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - whatever an import raises, the backend cannot be used
            missing[name] = f"{type(error).__name__}: {error}"[:300]
        else:
            modules[name] = version(DISTRIBUTION.get(name, name))
    if importlib.util.find_spec("torch") is None:
        missing["torch"] = "it is not installed"
    ok = not missing
    say(
        "elastic-client",
        backend=backend,
        ok=ok,
        torch=version("torch"),
        python=sys.version.split()[0],
        modules=modules,
        missing=missing,
    )
    return 0 if ok else 3


if __name__ == "__main__":
    sys.exit(main())
