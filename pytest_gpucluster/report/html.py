"""The sign-off page: one file without script and without any outside reference, made from the report alone."""

import functools
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import jinja2
from markupsafe import Markup

from pytest_gpucluster.report import (
    answer,
    causes,
    coverage,
    modules,
    operator_input,
    page,
    scope,
    site,
    text,
)
from pytest_gpucluster.report.drawings import products, sweep, targets, timeline
from pytest_gpucluster.requirement import AREAS, DOCUMENTS, Number, Refusal, catalogue

LABELS: Mapping[str, str] = {
    "pass": "pass",
    "fail": "violation",
    "environment": "environment",
    "inconclusive": "inconclusive",
    "not_applicable": "not applicable",
    "waived": "waived",
    "flaky": "flaky",
    "not_run": "not run",
    "not_built": "not built",
}
"""Word shown for a verdict; its shape and colour come with it, never alone."""

ASSERTED: Mapping[str, str] = {name: name.replace("_", " ") for name in (*site.OUTCOMES, "flaky")}
"""Word shown for the outcome of a test of the site's own; its shape is an outline, so that it looks like no verdict."""

ANSWERS: Mapping[str, str] = {"no": "No", "undecided": "Undecided"}
"""Word shown for an answer that is no yes; a yes says for what."""

_ANSWER_MARK: Mapping[str, str] = {"yes": "pass", "no": "fail", "undecided": "inconclusive"}
_ACRONYMS = frozenset({"mfu", "numa"})
_REASONS_SHOWN = 12
_FIGURES_SHOWN = 4
"""Figures without a limit that a row shows openly; more are folded."""


def render(report: Mapping[str, Any]) -> str:
    """Return the page of a report."""
    return _template().render(_context(report))


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pytest_gpucluster.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    filters: Mapping[str, Callable[..., Any]] = {
        "number": lambda value: text.number_text(Number(**value)),
        "refusal": _refusal,
        "seconds": _seconds,
        "day": lambda value: str(value or "-").replace("T", " ").partition(".")[0].removesuffix("Z"),
        "plain": _plain,
        "figure": text.figure,
        "figures": _figures,
        "needs": site.needs_text,
        "last_lines": site.last_lines,
    }
    environment.filters.update(filters)
    return environment.get_template("report.html.j2")


def _context(report: Mapping[str, Any]) -> dict[str, Any]:
    reasons = report["answer"]["reasons"]
    word = report["answer"]["word"]
    answered, *beside = [ANSWERS[word]] if word in ANSWERS else scope.parts(report)
    return {
        "report": report,
        "run": report["run"],
        "cluster": {
            "name": "",
            "provider": "",
            "versions": {},
            "nodes": [],
            "uid": "",
            "components": {},
            **report["cluster"],
        },
        "answer": answered,
        "beside": [part[0].upper() + part[1:] for part in beside],
        "answer_mark": _ANSWER_MARK[word],
        "reasons": reasons[:_REASONS_SHOWN],
        "more_reasons": max(0, len(reasons) - _REASONS_SHOWN),
        "labels": LABELS,
        "documents": DOCUMENTS,
        "runs": catalogue.RUNS,
        "areas": _areas(report["requirements"]),
        "by_level": _by_level(report),
        "asserted": ASSERTED,
        "asserted_mark": lambda test: "flaky" if site.is_flaky(test) else test["outcome"],
        "site_modules": _site_modules(report["requirements"]),
        "deselected": _deselected(report),
        "not_reached": list(filter(answer.is_asked, report["not_run"])),
        "undecided": [r for r in report["requirements"] if r["verdict"] in {"environment", "inconclusive"}],
        "evidence": _evidence(report),
        "evidence_href": evidence_href,
        "profile": list(_leaves(report)),
        "mark_of": mark_of,
        "drawings": drawings,
        "causes": causes.found(report),
        "wanted": operator_input.wanted(report),
        "machines": list(page.machines(report)),
        "many_machines": len(report["cluster"].get("machines") or ()) > coverage.COLUMNS,
        "coverage": coverage.matrix(report),
        "until": page.until(report),
        "profile_digest": page.profile_digest(report),
        "profile_sources": page.profile_sources(report),
        "marks": [
            mark for mark in page.GRAVEST if any(mark_of(row) == mark for row in report["requirements"])
        ],
        "steps": page.next_steps(report),
    }


def _deselected(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return why rows were not asked for -> their ids: a line says it for all of them."""
    found: dict[str, list[str]] = {}
    for row in report["not_run"]:
        if not answer.is_asked(row):
            found.setdefault(row["why"], []).append(row["id"])
    return found


def _site_modules(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return how the modules of requirements that are not shipped are named on a command line."""
    own = (row for row in rows if catalogue.row(row["id"]) is None)
    return [shlex.quote(name) for name in sorted({modules.named(row) for row in own})]


def mark_of(row: Mapping[str, Any]) -> str:
    """Return the verdict under which a row is shown: a waived or flaky row is never green and never hidden."""
    if row["waiver"] and row["verdict"] != "pass":
        return "waived"
    return "flaky" if answer.is_flaky(row) else str(row["verdict"])


def drawings(row: Mapping[str, Any]) -> list[tuple[str, Markup]]:
    """Return the drawings of a row, each with what it shows."""
    facts = row["finding"].get("facts") or {}
    failed = row["verdict"] == "fail"
    keys = row["finding"].get("evidence") or () if failed and row["finding"].get("violation") else ()
    found = (
        ("Timeline of the pods", timeline.drawn(facts, keys, waited=failed)),
        ("Bus bandwidth by size", sweep.drawn(facts)),
        *((f"{name} products of every GPU", picture) for name, picture in products.drawn(facts)),
    )
    return [(name, picture) for name, picture in found if picture is not None]


def evidence_href(name: str | None) -> str | None:
    """Return a relative link to an evidence file, None for a path that leads out of the run's folder."""
    if not name:
        return None
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        return None
    return str(path)


def _areas(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    meanings = dict(AREAS.values())
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["area"], []).append(row)
    return [
        {
            "name": name,
            "title": name.upper() if name in _ACRONYMS else name.capitalize(),
            "meaning": meanings.get(name, ""),
            "rows": page.in_order(members, list(map(mark_of, members))),
            "counts": _counts(members),
            "targets": targets.drawn(members),
        }
        for name, members in found.items()
    ]


def _counts(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Return how many rows are shown under which mark, the gravest first."""
    marks = [mark_of(row) for row in rows]
    return [(mark, marks.count(mark)) for mark in page.GRAVEST if mark in marks]


def _by_level(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = [name for name in LABELS if name not in {"waived", "flaky"}]
    table: list[dict[str, Any]] = []
    for level in ("must", "should", "control"):
        cells = dict.fromkeys(LABELS, 0)
        for row in report["requirements"]:
            if row["level"] == level:
                cells[row["verdict"]] += 1
                for name in ("waived", "flaky"):
                    cells[name] += mark_of(row) == name
        for name in ("not_run", "not_built"):
            cells[name] = sum(1 for row in report[name] if row["level"] == level)
        table.append({"level": level, "cells": cells, "total": sum(cells[name] for name in columns)})
    return table


def _evidence(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each evidence file once, with its scenario and the rows that it decided."""
    files: dict[tuple[str, str], dict[str, Any]] = {}
    for scenario in report["scenarios"]:
        key = (scenario["name"], scenario["evidence"] or "")
        files[key] = {**scenario, "rows": [], "total": sum(scenario["requests"].values())}
    for row in report["requirements"]:
        key = (row["scenario"], row["evidence"] or "")
        entry = files.setdefault(
            key,
            {
                "name": row["scenario"], "summary": "", "seconds": None, "problem": None, "total": None,
                "evidence": row["evidence"], "sha256": row["sha256"], "rows": [],
            },
        )  # fmt: skip
        entry["rows"].append(row["id"])
    return list(files.values())


def _figures(row: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the figures of a row that are shown openly, and those that are folded: many without a limit."""
    numbers = row["finding"].get("numbers") or []
    limited = [one for one in numbers if one.get("bound") is not None]
    return (
        (numbers, [])
        if len(numbers) - len(limited) <= _FIGURES_SHOWN
        else (
            limited,
            [one for one in numbers if one.get("bound") is None],
        )
    )


def _leaves(report: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    sources = report["profile"]["sources"]
    for path, value in _flatten(report["profile"]["values"], ()):
        yield {"path": path, "value": _plain(value), "source": _source(sources, path)}


def _flatten(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flatten(item, (*path, str(key)))
    elif path:
        yield ".".join(path), value


def _source(sources: Mapping[str, str], path: str) -> str:
    """Return where a leaf comes from: its own entry, or that of the nearest branch above it."""
    while path:
        if path in sources:
            return str(sources[path])
        path = path.rpartition(".")[0]
    return "default"


def _plain(value: Any) -> str:
    if value is None or value == "" or value in ([], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_plain(item) for item in value)
    return str(value)


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.1f} min"


def _refusal(value: Mapping[str, Any]) -> str:
    return text.refusal_text(Refusal(**value))
