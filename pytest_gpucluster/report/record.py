"""The record of a run: its journal, folded into one report.

The report is plain data with the shape of `schema.json`. Every other form (page, JUnit, columns) is made from
it and needs nothing else.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_gpucluster.report import claims, identity, older, seal, site
from pytest_gpucluster.report.answer import answer, counts
from pytest_gpucluster.report.journal import JOURNAL, SCHEMA, Journal, RecordError, judge_name, sha256
from pytest_gpucluster.requirement import Finding, Verdict, catalogue

__all__ = [
    "JOURNAL", "REPORT", "SCHEMA", "Folding", "Journal", "RecordError", "fold", "judge_name", "load", "sha256",
]  # fmt: skip

REPORT = seal.REPORT

KILLED = "the run was killed before it"
"""Why a row was not run of which nobody says anything, in a record without an end."""

_UNSAID = Finding(Verdict.INCONCLUSIVE, "", "").as_dict()
"""What a finding says where an older record does not have the field."""


LACKING = "lacking"
"""Key of a loaded report, and of no file: names of what its record does not have."""


def fold(path: Path) -> dict[str, Any]:
    """Return the report of a journal, also of one whose run was killed.

    Raises:
        RecordError: no such file, no start of a run in it, or a schema that is newer than ours.
    """
    return Folding(path).report()


def load(run_folder: Path) -> dict[str, Any]:
    """Return the report of a run folder: `report.json` if written, else the folded journal.

    Raises:
        RecordError: when neither can be read.
    """
    path = run_folder / REPORT
    if not path.is_file():
        return fold(run_folder / JOURNAL)
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise RecordError(f"{path}: cannot be read: {error}") from None
    if not isinstance(report, dict) or not isinstance(report.get("requirements"), list):
        raise RecordError(f"{path}: is not a report of a run")
    _check_schema(path, report.get("schema"))
    try:
        lacking = older.complete(report)
    except older.ShapeError as error:
        raise RecordError(
            f"{path}: is not a report of a run: {error} is missing or of another shape"
        ) from None
    for row in report["requirements"]:
        if not isinstance(row["finding"], dict):
            raise RecordError(
                f"{path}: is not a report of a run: the finding of {row['id']} is of another shape"
            )
        row["finding"] = {**_UNSAID, **row["finding"]}
    if "counts" not in report or "site_tests" not in report["counts"]:
        report["counts"] = counts(report)
    if "answer" not in report:
        report["answer"] = answer(report)
    if lacking:
        report[LACKING] = lacking
    return report


def _read(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    if path.exists() and not path.is_file():
        raise RecordError(f"{path}: cannot be read: it is not a regular file")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from None
    entries: list[dict[str, Any]] = []
    problems: list[str] = []
    lines = raw.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            if not isinstance(entry, dict) or not isinstance(entry.get("event"), str):
                raise ValueError("no event")  # noqa: TRY004, TRY301 - one answer for every malformed line
        except (ValueError, RecursionError):
            last = number == len(lines)
            problems.append(
                f"line {number} of {path.name} is cut off: the run was killed while writing it"
                if last
                else f"line {number} of {path.name} is not an event and was left out"
            )
            continue
        entries.append(entry)
    return entries, problems


def _check_schema(path: Path, schema: object) -> None:
    if not isinstance(schema, int):
        raise RecordError(f"{path}: names no schema")
    if schema > SCHEMA:
        raise RecordError(
            f"{path}: has schema {schema}, this version reads up to {SCHEMA}: update pytest-gpucluster"
        )


class Folding:
    """One pass over the journal's entries; later events of the same subject replace earlier ones."""

    def __init__(self, path: Path) -> None:
        """Read a journal.

        Raises:
            RecordError: as `fold`, but for a start that is missing, which `report` tells.
        """
        entries, self.problems = _read(path)
        self.path = path
        self.last: Mapping[str, Any] = {}
        self.files: dict[str, str] = {}
        self.start: Mapping[str, Any] | None = None
        self.end: Mapping[str, Any] | None = None
        self.declared: dict[str, Mapping[str, Any]] = {}
        self.decided: dict[str, dict[str, Any]] = {}
        self.not_run: dict[str, Mapping[str, Any]] = {}
        self.site_tests: dict[str, dict[str, Any]] = {}
        self.scenarios: dict[str, dict[str, Any]] = {}
        self.left_overs: dict[str, None] = {}
        self.cleaned = False
        self.proof: dict[str, None] = {}
        self.beside: list[Mapping[str, int]] = []
        self.decision: Mapping[str, Any] | None = None
        for entry in entries:
            self._take(entry)

    def take(self, line: bytes) -> None:
        """Take a line that this process wrote since: at the end of a run nobody else writes."""
        self._take(json.loads(line))

    def _take(self, entry: Mapping[str, Any]) -> None:
        self.last = entry
        misplaced = self._misplaced(entry["event"])
        known = len(self.problems)
        try:
            self._take_checked(entry)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            self.problems.append(f"an event {entry['event']!r} is incomplete and was left out: {error!r}")
        if misplaced and len(self.problems) == known:
            self.problems.append(f"an event {entry['event']!r} is {misplaced}")

    def _misplaced(self, event: str) -> str:
        """Return where an event stands if no run writes it there, "" for a good place."""
        if self.end is not None:
            return "after the end of the run"
        if (event == "run-start") == (self.start is not None):
            return "after the start of the run" if self.start is not None else "before the start of the run"
        return ""

    def _take_checked(self, entry: Mapping[str, Any]) -> None:
        match entry["event"]:
            case "run-start":
                _check_schema(self.path, entry.get("schema"))
                self.start = self.start or entry
            case "declared":
                self.declared.update({row["id"]: row for row in entry["rows"]})
            case "scenario":
                self.scenarios[entry["name"]] = _scenario(entry)
            case "requirement":
                earlier = self.decided.get(entry["id"])
                before = [*earlier["earlier"], earlier["verdict"]] if earlier else []
                self.decided[entry["id"]] = {**_decided(entry), "earlier": before}
            case "not-run":
                self.not_run[entry["id"]] = entry
            case "site-test":
                self.site_tests[entry["nodeid"]] = site.folded(entry, self.site_tests.get(entry["nodeid"]))
            case "cleanup":
                self.cleaned = True
                self.proof.update(dict.fromkeys(str(line) for line in entry.get("proof") or ()))
                self.beside.append(dict(entry.get("requests") or {}))
                self.left_overs.update(dict.fromkeys(str(item) for item in entry["left_overs"]))
            case "decision":
                self.decision = dict(entry["decision"])
            case "run-end":
                self.end = entry
                self.files = seal.told(entry.get("files") or ())
            case _:
                self.problems.append(f"an event {entry['event']!r} is unknown and was left out")

    def report(self) -> dict[str, Any]:
        """Return the report of what was taken so far.

        Raises:
            RecordError: holds no start of a run.
        """
        start = self.start
        if start is None:
            raise RecordError(f"{self.path}: contains no start of a run")
        waivers = _waivers(start)
        in_force = {
            waiver["id"]: {key: waiver[key] for key in ("reason", "owner", "expires")}
            for waiver in waivers
            if not waiver["expired"]
        }
        decided = [
            {**row, "waiver": in_force.get(row["id"])}
            for row in sorted(self.decided.values(), key=lambda row: catalogue.order(row["id"]))
        ]
        report: dict[str, Any] = {
            "schema": SCHEMA,
            "run": self._run(start),
            "cluster": {**_cluster(start.get("cluster") or {}), **identity.together(self.scenarios.values())},
            "profile": {
                "values": dict(start.get("profile") or {}),
                "sources": dict(start.get("sources") or {}),
            },
            "requirements": decided,
            "not_run": self._not_run(),
            "not_built": self._not_built(),
            "site_tests": sorted(self.site_tests.values(), key=lambda item: str(item["nodeid"])),
            "waivers": waivers,
            "scenarios": sorted(self.scenarios.values(), key=lambda item: str(item["name"])),
            "cleanup": {
                "done": self.cleaned,
                "left_overs": list(self.left_overs),
                "proof": list(self.proof),
            },
            "requests": self._requests(),
            "decision": self.decision or _undecided(start),
            "problems": list(self.problems),
            "files": dict(self.files),
        }
        report["claims"] = claims.compared(report)
        report["counts"] = counts(report)
        report["answer"] = answer(report)
        return report

    def _run(self, start: Mapping[str, Any]) -> dict[str, Any]:
        end = self.end
        return {
            "id": str(start.get("run", "")),
            "plugin": str(start.get("plugin", "")),
            "versions": dict(start.get("versions") or {}),
            "command": [str(word) for word in start.get("command") or []],
            "defects": [str(word) for word in start.get("defects") or []],
            "asked": [str(word) for word in start.get("asked") or []],
            "evidence_schema": start.get("evidence_schema"),
            "started": start.get("at"),
            "ended": (end or self.last).get("at"),
            "interrupted": end is None or bool(end.get("interrupted")),
            "killed": end is None,
            "exit_status": end.get("exit_status") if end else None,
            "by": str(start.get("by") or ""),
        }

    def _not_run(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for row_id in sorted({*self.declared, *self.not_run} - {*self.decided}, key=catalogue.order):
            entry = self.not_run.get(row_id)
            why = str(entry["why"]) if entry and entry.get("why") else self._why_not()
            rows.append({**_row(entry or self.declared[row_id]), "why": why})
        return rows

    def _why_not(self) -> str:
        if self.end is None:
            return KILLED
        return "the run was interrupted before it" if self.end.get("interrupted") else "not selected"

    def _not_built(self) -> list[dict[str, Any]]:
        known = {*self.declared, *self.decided, *self.not_run}
        return [row.as_dict() for row in catalogue.rows() if row.id not in known]

    def _requests(self) -> dict[str, Any]:
        by: dict[str, int] = {}
        for requests in (*(item["requests"] for item in self.scenarios.values()), *self.beside):
            for name, count in requests.items():
                by[name] = by.get(name, 0) + count
        return {"total": sum(by.values()), "by": dict(sorted(by.items()))}


def _undecided(start: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the decision of a run that has not come to one, None where nobody asked for one."""
    policy = start.get("policy")
    if not policy:
        return None
    why = "the run has not come to its end"
    return {
        "open": False,
        "text": f"closed: {why}",
        "policy": dict(policy),
        "at": None,
        "until": None,
        "purposes": {},
        "closers": [
            {"what": "run", "why": why, "fix": "make a new one", "stage": "", "ambiguous": ""},
        ],
        "notes": [],
        "rows": [],
    }


def _cluster(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identity of a cluster with its `facts` beside its name."""
    own = {key: value for key, value in stated.items() if key != "facts"}
    return {**own, **(stated.get("facts") or {})}


def _row(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": entry["id"],
        "area": entry.get("area", ""),
        "level": entry.get("level", "must"),
        "documents": list(entry.get("documents") or []),
        "title": entry.get("title", ""),
        "text": entry.get("text", ""),
        "scenario": entry.get("scenario", ""),
        "judge": entry.get("judge", ""),
        "defects": list(entry.get("defects") or []),
        "where": entry.get("where", ""),
    }


def _decided(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **_row(entry),
        "verdict": entry["finding"]["verdict"],
        "finding": {**_UNSAID, **entry["finding"]},
        "presupposed": [dict(item) for item in entry.get("presupposed") or []],
        "seconds": float(entry.get("seconds") or 0.0),
        "nodeid": entry.get("nodeid", ""),
        "failure_text": entry.get("failure_text", ""),
        "evidence": entry.get("evidence"),
        "sha256": entry.get("sha256"),
        "at": entry["at"],
    }


def _scenario(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": entry["name"],
        "summary": entry.get("summary", ""),
        "seconds": float(entry.get("seconds") or 0.0),
        "requests": {str(name): int(count) for name, count in (entry.get("requests") or {}).items()},
        "problem": entry.get("problem"),
        "evidence": entry.get("evidence"),
        "sha256": entry.get("sha256"),
        "seen": dict(entry.get("seen") or {}),
    }


def _waivers(start: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the declared waivers; one that had expired when the run started has no effect and is still named."""
    found = []
    today = str(start.get("at", ""))[:10]
    for waiver in (start.get("profile") or {}).get("waivers") or []:
        expires = str(waiver.get("expires") or "")
        if waiver.get("id"):
            found.append(
                {
                    "id": str(waiver["id"]),
                    "reason": str(waiver.get("reason", "")),
                    "owner": str(waiver.get("owner", "")),
                    "expires": expires,
                    "expired": bool(expires) and expires[:10] < today,
                }
            )
    return found
