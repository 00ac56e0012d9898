"""Records made before some keys of their schema were kept: they are read, and what they lack is named."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Default = Callable[[], Any]

_TOP: Mapping[str, Default] = {
    "cluster": dict, "profile": dict, "requirements": list, "not_run": list, "not_built": list, "site_tests": list,
    "waivers": list, "claims": list, "scenarios": list, "cleanup": dict, "requests": dict, "decision": lambda: None,
    "problems": list, "files": dict,
}  # fmt: skip
_RUN: Mapping[str, Default] = {
    "plugin": str, "versions": dict, "command": list, "defects": list, "asked": list, "evidence_schema": lambda: None,
    "started": lambda: None, "ended": lambda: None, "interrupted": lambda: True, "killed": lambda: False,
    "exit_status": lambda: None, "by": str,
}  # fmt: skip
_INSIDE: Mapping[str, Mapping[str, Default]] = {
    "run": _RUN,
    "profile": {"values": dict, "sources": dict},
    "cleanup": {"done": lambda: False, "left_overs": list, "proof": list},
    "requests": {"total": lambda: 0, "by": dict},
}
_ROW: Mapping[str, Default] = {
    "area": str, "level": lambda: "must", "documents": list, "title": str, "text": str, "scenario": str, "judge": str,
    "defects": list, "where": str,
}  # fmt: skip
_DECIDED: Mapping[str, Default] = {
    **_ROW, "presupposed": list, "seconds": float, "nodeid": str, "failure_text": str, "evidence": lambda: None,
    "sha256": lambda: None, "at": lambda: None, "waiver": lambda: None,
}  # fmt: skip
_SCENARIO: Mapping[str, Default] = {
    "summary": str, "seconds": float, "requests": dict, "problem": lambda: None, "evidence": lambda: None,
    "sha256": lambda: None, "seen": dict,
}  # fmt: skip
_SITE: Mapping[str, Default] = {
    "title": str, "area": str, "level": lambda: "must", "seconds": float, "needs": dict, "scenarios": list, "text": str,
    "evidence": lambda: None, "sha256": lambda: None, "at": lambda: None, "earlier": list,
}  # fmt: skip
_ITEMS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Default]]] = {
    "requirements": (("id", "verdict", "finding"), _DECIDED),
    "not_run": (("id",), {**_ROW, "why": str}),
    "scenarios": (("name",), _SCENARIO),
    "site_tests": (("nodeid", "outcome"), _SITE),
}
"""List -> keys without which an item says nothing, and the others with what stands for one that is not there."""

COUNTS = ("counts", "answer")
"""What is computed from the rest."""


class ShapeError(Exception):
    """A record that lacks what no default can stand for; the text names it."""


def complete(report: dict[str, Any]) -> tuple[str, ...]:
    """Fill in the keys that a record lacks, as if nothing had been seen there; return their names, in order.

    What is filled in never makes an answer better: no clean-up is done, nothing is decided, a run has no end.

    Raises:
        ShapeError: a key without which the record says nothing is missing, or something has another shape.
    """
    if not isinstance(report.get("run"), dict) or "id" not in report["run"]:
        raise ShapeError("run.id")
    lacking: list[str] = []
    _fill(report, _TOP, "", lacking)
    for name, known in _INSIDE.items():
        if not isinstance(report[name], dict):
            raise ShapeError(name)
        _fill(report[name], known, f"{name}.", lacking)
    for name, (needed, known) in _ITEMS.items():
        if not isinstance(report[name], list):
            raise ShapeError(name)
        for number, item in enumerate(report[name]):
            absent = list(_absent(item, needed))
            if absent:
                raise ShapeError(f"{name}.{number}.{absent[0]}")
            _fill(item, known, f"{name}.", lacking)
    return tuple(dict.fromkeys([*lacking, *(key for key in COUNTS if key not in report)]))


def _absent(item: Any, needed: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(item, dict):
        yield "*"
        return
    yield from (key for key in needed if key not in item)


def _fill(of: dict[str, Any], known: Mapping[str, Default], above: str, lacking: list[str]) -> None:
    for key, default in known.items():
        if key not in of:
            of[key] = default()
            lacking.append(f"{above}{key}")
