"""The mark `needs`: what a site's own test takes from the cluster, known before anything is made."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_gpucluster.plain import names, plurals

MARK = "needs"
HELP = (
    "needs(*capabilities, nodes=0, gpus=0, seconds=0, alone=False): gpucluster: what a test needs; it does not "
    "apply if the profile declares no such capability, or the cluster has fewer GPU nodes or GPUs"
)
MOST = 10**9
"""The largest number that anybody means."""
_WORDS: Mapping[str, type] = {"nodes": int, "gpus": int, "seconds": float, "alone": bool}


class NeedsError(Exception):
    """A mark that is written wrongly; one line: which test, what is wrong, what is allowed."""


@dataclasses.dataclass(frozen=True)
class SiteNeeds:
    """What one of a site's own tests takes.

    Attributes:
        capabilities: what the profile must declare.
        nodes: GPU nodes that must be there.
        gpus: GPUs that it holds at the same time.
        seconds: how long it holds them.
        alone: whether nothing else of the run may go on meanwhile.
        declared: whether the test says so by a mark; else its price is not known.
    """

    capabilities: tuple[str, ...] = ()
    nodes: int = 0
    gpus: int = 0
    seconds: float = 0.0
    alone: bool = False
    declared: bool = False

    @property
    def gpu_seconds(self) -> float:
        """Return the price: GPUs times seconds."""
        return self.gpus * self.seconds

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for the record."""
        return {
            "capabilities": list(self.capabilities),
            "nodes": self.nodes,
            "gpus": self.gpus,
            "seconds": self.seconds,
            "declared": self.declared,
        }

    def text(self) -> str:
        """Return the needs in a few words."""
        if not self.declared:
            return "not declared (mark needs)"
        words = list(self.capabilities)
        words += [plurals.count(self.nodes, "GPU node")] if self.nodes else []
        words += [plurals.count(self.gpus, "GPU")] if self.gpus else []
        return ", ".join(words) or "nothing"


def is_foreign(config: pytest.Config) -> bool:
    """Report whether the project has a mark of this name that is its own."""
    lines = (str(line) for line in config.getini("markers"))
    return any(line.partition(":")[0].partition("(")[0].strip() == MARK and line != HELP for line in lines)


def of(item: pytest.Item) -> SiteNeeds:
    """Return what a test needs: its own mark, those of its class and its module together.

    Raises:
        NeedsError: an unknown capability or word, a value of the wrong kind, GPUs without seconds.
    """
    marks = [] if is_foreign(item.config) else list(item.iter_markers(MARK))
    if not marks:
        return SiteNeeds()
    from pytest_gpucluster.profile.capabilities import CAPABILITIES

    capabilities: dict[str, None] = {}
    words: dict[str, Any] = {"nodes": 0, "gpus": 0, "seconds": 0.0, "alone": False}
    for mark in reversed(marks):
        for name in mark.args:
            if not isinstance(name, str) or name not in CAPABILITIES:
                hint = names.did_you_mean(str(name), CAPABILITIES)
                raise NeedsError(f"{item.nodeid}: needs names an unknown capability {name!r}{hint}")
            capabilities[name] = None
        for name, value in mark.kwargs.items():
            words[name] = max(words.get(name, 0), _checked(item, name, value))
    if words["gpus"] and not words["seconds"]:
        raise NeedsError(f"{item.nodeid}: needs(gpus={words['gpus']}) does not give a duration: add seconds=")
    return SiteNeeds(tuple(capabilities), **words, declared=True)


def _checked(item: pytest.Item, name: str, value: Any) -> Any:
    if name not in _WORDS:
        raise NeedsError(f"{item.nodeid}: needs has no {name!r}{names.did_you_mean(name, _WORDS)}")
    kind = _WORDS[name]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    good = isinstance(value, bool) if kind is bool else number and (kind is float or isinstance(value, int))
    if not good or not 0 <= value <= MOST:
        wanted = {bool: "True or False", int: "a whole number, 0 or more", float: "seconds, 0 or more"}[kind]
        raise NeedsError(f"{item.nodeid}: needs({name}={value!r}) must be {wanted}")
    return value


def scenario_name(nodeid: str, name: str) -> str:
    """Return the name under which a test's evidence is kept, fit for a label: readable, and its own."""
    tail = hashlib.sha256(nodeid.encode()).hexdigest()[:6]
    return f"{names.safe_name('site', name, limit=32)}-{tail}"
