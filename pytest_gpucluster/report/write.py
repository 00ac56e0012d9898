"""Write everything that is made from the record of a run."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_gpucluster.report import junit, record, seal

PAGE = "report.html"
JUNIT = "junit.xml"
SUMS = seal.SUMS

Render = Callable[[Mapping[str, Any]], str]


def write_all(run_folder: Path, *, say: Callable[[str], None] | None = None) -> list[Path]:
    """Fold the journal of a run and write report, page, JUnit and check sums; return what was written.

    Called at the end of every run, so it never raises for a broken record or a full disk: what cannot be
    written is one line to `say` (by default standard error), and the rest is written all the same.
    """
    tell = say or _to_stderr
    try:
        report = record.fold(run_folder / record.JOURNAL)
    except record.RecordError as error:
        tell(f"no report: {error}")
        return []
    written: list[Path] = []
    for name, render in forms().items():
        path = run_folder / name
        try:
            _write(path, render(report))
        except Exception as error:  # noqa: BLE001 - one form that fails must not cost the others
            tell(f"{path}: not written: {type(error).__name__}: {error}")
        else:
            written.append(path)
    try:
        _write(run_folder / SUMS, seal.text(run_folder))
    except OSError as error:
        tell(f"{run_folder / SUMS}: not written: {error}")
    else:
        written.append(run_folder / SUMS)
    return written


def forms() -> dict[str, Render]:
    """Return what is made from a report alone: name of the file -> what renders it."""
    return {record.REPORT: _json, PAGE: _page, JUNIT: junit.render}


def _json(report: Mapping[str, Any]) -> str:
    return json.dumps(report, indent=1, ensure_ascii=False, default=str) + "\n"


def _page(report: Mapping[str, Any]) -> str:
    # jinja2 costs a noticeable part of a second: only who writes a page pays it.
    from pytest_gpucluster.report import html  # noqa: PLC0415

    return html.render(report)


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"gpucluster: {line}\n")
