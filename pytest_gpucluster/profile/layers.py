"""Layers of plain data, later wins, each leaf remembers where it came from."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pytest_gpucluster.plain import names
from pytest_gpucluster.profile import keys
from pytest_gpucluster.profile.errors import PAGE, ProfileError
from pytest_gpucluster.profile.reading import read_value

ENV_PREFIX = "GPUCLUSTER_"
OPTION_TWINS = frozenset(
    {
        "CLUSTER", "PROFILES", "PLAN", "DEFECT", "KEEP", "REUSE", "REPORT_DIR", "MAX_GPU_SECONDS", "GATE",
        "POLICY", "MAX_NODES", "DEADLINE", "YES",
        "KIND_IMAGE", "KIND_NAME", "KIND_PAYLOAD", "KIND_ADDONS",
    }
)  # fmt: skip
"""Variables that are twins of command line options; the others name leaves (`GPUCLUSTER_BUDGETS__BIND`)."""

OPTIONS_PAGE = "pytest --help"
"""What lists the variables of options."""

# Kubernetes puts these into every pod of a namespace that has a Service called `gpucluster`.
_SERVICE_LINK = re.compile(r"^(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_\w+)?)$")


class Layers:
    """The merged data and the source of each leaf."""

    def __init__(self) -> None:
        """Start empty."""
        self.data: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.places: dict[str, str] = {}
        """Dotted path -> place in the profile file, also of what lies inside a leaf, such as an entry of a list."""

    def lay(self, data: Mapping[str, Any], source: str | Callable[[str], str]) -> None:
        """Lay a layer on top: mappings are merged, everything else is replaced."""
        named = source if callable(source) else (lambda _path, text=source: text)
        for path, value in leaves(data):
            self.put(path, value, named(".".join(path)))

    def put(self, path: tuple[str, ...], value: Any, source: str) -> None:
        """Set one leaf."""
        at = self.data
        for depth, key in enumerate(path[:-1], start=1):
            inner = at.get(key)
            if not isinstance(inner, dict):
                inner = at[key] = {}
                self._forget(".".join(path[:depth]))
            at = inner
        dotted = ".".join(path)
        if value == {} and isinstance(at.get(path[-1]), dict):
            return
        self._forget(dotted)
        at[path[-1]] = dict(value) if isinstance(value, Mapping) else value
        self.sources[dotted] = source

    def source_of(self, path: str) -> str | None:
        """Return the source of a leaf, or of the nearest leaf above or below it."""
        at = path
        while at:
            if at in self.sources:
                source = self.sources[at]
                # A leaf that is still the file's: what lies inside it has a line of its own.
                return self.places.get(path, source) if source == self.places.get(at) else source
            at = at.rpartition(".")[0]
        return next((s for leaf, s in self.sources.items() if leaf.startswith(f"{path}.")), None)

    def _forget(self, dotted: str) -> None:
        for leaf in [p for p in self.sources if p == dotted or p.startswith(f"{dotted}.")]:
            del self.sources[leaf]
        parent = dotted.rpartition(".")[0]
        self.sources.pop(parent, None)


def leaves(data: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each leaf with its path; an empty mapping is a leaf, a list is one."""
    for key, value in data.items():
        inner = (*path, str(key))
        if isinstance(value, Mapping) and value:
            yield from leaves(value, inner)
        else:
            yield inner, value


def _meant(rest: str) -> str:
    """Return the end of the error line about a variable: the nearest one, and what lists all."""
    first, *inner = rest.split("__")
    near = names.nearest(first, [*OPTION_TWINS, *(key.upper() for key in keys.allowed(()))])
    hint = f"; did you mean {ENV_PREFIX + '__'.join([near, *inner])!r}?" if near else ""
    return f"{hint} (options: {OPTIONS_PAGE}; keys of the profile: {PAGE})"


def from_environment(env: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    """Yield path, value and source of each leaf that a `GPUCLUSTER_*` variable sets.

    Raises:
        ProfileError: a variable that is neither the twin of an option nor a key, or whose value is not valid YAML.
    """
    for name in sorted(env):
        rest = name.removeprefix(ENV_PREFIX)
        if rest == name or rest in OPTION_TWINS or _SERVICE_LINK.match(rest):
            continue
        path = tuple(part.lower() for part in rest.split("__"))
        where = f"environment {name}"
        if path[0] not in keys.allowed(()):
            raise ProfileError(where, "", f"unknown variable{_meant(rest)}")
        yield path, read_value(env[name], where, ".".join(path)), where


def from_texts(texts: Iterable[str], where: str) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    """Yield path, value and source of each `PATH=VALUE`.

    Raises:
        ProfileError: without `=`, or when the value is not valid YAML.
    """
    for text in texts:
        path, equals, value = text.partition("=")
        path = path.strip()
        if not equals or not path:
            raise ProfileError(where, "", "expected PATH=VALUE, such as budgets.bind=30", value=text)
        yield tuple(path.split(".")), read_value(value.strip(), where, path), where
