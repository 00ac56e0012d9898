"""Write everything that is made from the record of a run."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_gpucluster.report import junit, record

PAGE = "report.html"
JUNIT = "junit.xml"
SUMS = "SHA256SUMS"


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
    writers: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
        (record.REPORT, _json),
        (PAGE, _page),
        (JUNIT, junit.render),
    )
    written: list[Path] = []
    for name, render in writers:
        path = run_folder / name
        try:
            _write(path, render(report))
        except Exception as error:  # noqa: BLE001 - one form that fails must not cost the others
            tell(f"{path}: not written: {type(error).__name__}: {error}")
        else:
            written.append(path)
    try:
        _write(run_folder / SUMS, _sums(run_folder, report, written))
    except OSError as error:
        tell(f"{run_folder / SUMS}: not written: {error}")
    else:
        written.append(run_folder / SUMS)
    return written


def _json(report: Mapping[str, Any]) -> str:
    return json.dumps(report, indent=1, ensure_ascii=False, default=str) + "\n"


def _page(report: Mapping[str, Any]) -> str:
    # jinja2 costs a noticeable part of a second: only who writes a page pays it.
    from pytest_gpucluster.report import html  # noqa: PLC0415

    return html.render(report)


def _sums(run_folder: Path, report: Mapping[str, Any], written: list[Path]) -> str:
    """Return lines as `sha256sum --check` reads them: journal, forms, and every evidence file."""
    kept = (*report["requirements"], *report["scenarios"], *report["site_tests"])
    files = [item["evidence"] for item in kept if item["evidence"]]
    named = [run_folder / record.JOURNAL, *written, *(run_folder / name for name in files)]
    unique = [path for path in dict.fromkeys(named) if path.is_file()]
    return "".join(f"{record.sha256(path)}  {os.path.relpath(path, run_folder)}\n" for path in unique)


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
