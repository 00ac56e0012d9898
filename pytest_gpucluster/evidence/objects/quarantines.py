"""Nodes that are kept back for their health: by whom, for which open fault, since when, and how it ends.

Where health systems write that is data (`fixtures/health/quarantines.yaml`).
"""

import dataclasses
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects.node_status import Machine
from pytest_gpucluster.measure import shipped
from pytest_gpucluster.plain import shortening

TABLE, FOLDER = "quarantines", "health"
UNWELL = re.compile(
    r"unhealthy|xid|fault|broken|fail(?:ed|ure|ing)|degraded|quarantin|repair|\brma\b", re.IGNORECASE
)
"""Words of a taint by which somebody keeps pods off a node whose devices are ill: to tolerate it is no fix."""
CORDON = "spec.unschedulable"
_TIMES = ("timestamp", "time", "generatedTimestamp", "detectedAt")
"""Keys of a JSON value under which a time stands."""
_NOTHING = ("", "[]", "{}", "null", "none", "None")
"""Values of labels and annotations by which a system says that it knows of no fault."""
_MOST = 120
"""Characters of a value that are shown."""


@dataclasses.dataclass(frozen=True)
class Mark:
    """Something on a node that keeps it back, or explains that.

    Attributes:
        at: `cordon`, `label`, `taint`, `annotation` or `condition`.
        key: its key, or the type of a condition.
        value: its value, or the reason of a condition.
        since: since when, as it is written there; "" if nobody says.
    """

    at: str
    key: str
    value: str = ""
    since: str = ""

    @property
    def shown(self) -> str:
        """Return it as findings show it."""
        text = f"{self.key}={self.value}" if self.value else self.key
        return text if self.at == "cordon" else f"{self.at} {text}"


@dataclasses.dataclass(frozen=True)
class Fault:
    """An open fault of a node.

    Attributes:
        system: who reports it.
        text: the fault in the words of that system.
        since: since when, "" if nobody says.
        ends: how a quarantine for it ends.
    """

    system: str
    text: str
    since: str
    ends: str


@dataclasses.dataclass(frozen=True)
class Quarantine:
    """A node that is kept back.

    Attributes:
        machine: the node.
        marks: what keeps it back, system -> marks; "" for a cordon that nobody signed, and taints of unknown systems.
        faults: its open faults.
        checks: marks of checks that are under way.
        stuck: marks of repairs that ended without success.
        work: planned work that explains it, as texts.
        since: since when, "" if nobody says.
        ends: how it ends, system -> text.
    """

    machine: Machine
    marks: Mapping[str, tuple[Mark, ...]]
    faults: tuple[Fault, ...]
    checks: tuple[Mark, ...]
    stuck: tuple[Mark, ...]
    work: tuple[str, ...]
    since: str
    ends: Mapping[str, str]

    @property
    def unsigned(self) -> tuple[Mark, ...]:
        """Return what keeps it back and is no known system's: a cordon, taints of unknown systems."""
        return self.marks.get("", ())

    @property
    def unknown(self) -> tuple[Mark, ...]:
        """Return the taints of systems that the table does not have."""
        return tuple(mark for mark in self.unsigned if mark.at == "taint")

    @property
    def systems(self) -> tuple[str, ...]:
        """Return the known systems that keep it back."""
        return tuple(name for name in self.marks if name)


@functools.cache
def table() -> tuple[Mapping[str, Any], ...]:
    """Return the shipped table of health systems."""
    return tuple(shipped.load(TABLE, FOLDER))


def of(machine: Machine) -> Quarantine | None:
    """Return why a node is kept back; None if it is not."""
    every = tuple(_marks(machine))
    signed: dict[str, tuple[Mark, ...]] = {}
    work: dict[str, None] = {}
    checks: list[Mark] = []
    stuck: list[Mark] = []
    for entry in table():
        found = tuple(_matching(every, entry.get("marks") or ()))
        if found and entry["kind"] == "work":
            work[f"{entry['system']} ({found[0].shown}): {entry['ends']}"] = None
        elif found:
            signed[entry["system"]] = found
            checks += _matching(every, entry.get("checks") or ())
            stuck += _matching(every, entry.get("stuck") or ())
    known = {mark for found in signed.values() for mark in found}
    unsigned = [
        mark for mark in every if mark.at == "taint" and mark not in known and _speaks_of_health(mark)
    ]
    if machine.cordoned:
        unsigned.insert(0, Mark("cordon", CORDON))
    if unsigned:
        signed[""] = tuple(unsigned)
    if not signed:
        return None
    faults = tuple(_faults(every, [mark for found in signed.values() for mark in found]))
    return Quarantine(
        machine,
        signed,
        faults,
        tuple(checks),
        tuple(stuck),
        tuple(work),
        _since(every, signed, faults),
        {str(entry["system"]): str(entry["ends"]) for entry in table()},
    )


def conditions(machine: Machine) -> tuple[Fault, ...]:
    """Return the open faults that health systems report of a node as conditions, whether it is kept back or not."""
    every = [mark for mark in _marks(machine) if mark.at == "condition"]
    return tuple(_faults(every, ()))


def _speaks_of_health(mark: Mark) -> bool:
    planned = [mark_ for entry in table() if entry["kind"] == "work" for mark_ in entry["marks"]]
    return bool(UNWELL.search(f"{mark.key}={mark.value}")) and not any(_fits(mark, one) for one in planned)


def _marks(machine: Machine) -> Iterator[Mark]:
    """Yield all that stands on a node: labels, annotations, taints and conditions."""
    node = machine.line.object
    for part, at in (("labels", "label"), ("annotations", "annotation")):
        for key, value in fields.sub(node, "metadata", part).items():
            yield Mark(at, str(key), str(value))
    for taint in fields.items(node, "spec", "taints"):
        key, value, added = (fields.text(taint, name) for name in ("key", "value", "timeAdded"))
        yield Mark("taint", key, value, added)
    for condition in fields.items(node, "status", "conditions"):
        kind, status, since = (
            fields.text(condition, name) for name in ("type", "status", "lastTransitionTime")
        )
        yield Mark("condition", kind, status, since)


def _matching(every: Sequence[Mark], wanted: Sequence[Mapping[str, Any]]) -> Iterator[Mark]:
    for mark in every:
        if any(_fits(mark, one) for one in wanted):
            yield mark


def _fits(mark: Mark, wanted: Mapping[str, Any]) -> bool:
    if mark.at != wanted["at"] or not _pattern(wanted["key"]).fullmatch(mark.key):
        return False
    value = wanted.get("status") if mark.at == "condition" else wanted.get("value")
    return value is None or bool(_pattern(str(value)).fullmatch(mark.value))


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _faults(every: Sequence[Mark], kept_by: Sequence[Mark]) -> Iterator[Fault]:
    """Yield the open faults of a node, of whichever system."""
    for entry in table():
        for wanted in entry.get("faults") or ():
            for mark in (mark for mark in every if _fits(mark, wanted) and mark.value not in _NOTHING):
                listed = [one for one in kept_by if one.at == "taint" and one.key in mark.value]
                if wanted.get("lists") and not listed:
                    continue
                text = listed[0].shown if wanted.get("lists") else _named(mark, wanted.get("names") or ())
                yield Fault(entry["system"], text, mark.since or _time_in(mark.value), entry["ends"])


def _named(mark: Mark, names: Sequence[str]) -> str:
    """Return the fault that a mark names, in the words of its system."""
    if mark.at == "condition":
        return f"{mark.key}={mark.value}"
    said = _values(mark.value, names)
    return shortening.shown(", ".join(said) or f"{mark.key.rpartition('/')[2]}={mark.value}", _MOST)


def _values(text: str, names: Sequence[str]) -> list[str]:
    """Return the values of some keys of a JSON text, at any depth, each once; none where it is no JSON."""
    try:
        found = list(_walked(json.loads(text), names)) if names else []
    except ValueError:
        return []
    return list(dict.fromkeys(found))


def _walked(value: Any, names: Sequence[str]) -> Iterator[str]:
    if isinstance(value, dict):
        for name in names:
            said = value.get(name)
            if isinstance(said, str | int) and str(said):
                yield str(said)
            elif isinstance(said, list) and all(isinstance(one, str) for one in said):
                yield from said
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            if isinstance(one, dict | list):
                yield from _walked(one, names)


def _time_in(text: str) -> str:
    return next(iter(_values(text, _TIMES)), "")


def _since(every: Sequence[Mark], signed: Mapping[str, Sequence[Mark]], faults: Sequence[Fault]) -> str:
    """Return since when a node is kept back: as its system says, else since when its fault is open."""
    for entry in table():
        if entry["system"] in signed:
            for key in entry.get("since") or ():
                told = [
                    m for m in every if m.at in ("label", "annotation") and _pattern(key).fullmatch(m.key)
                ]
                for mark in told:
                    if mark.value:
                        return _time_in(mark.value) or shortening.shown(mark.value, _MOST)
    added = [mark.since for found in signed.values() for mark in found if mark.since]
    return next(iter((*added, *(fault.since for fault in faults if fault.since))), "")
