"""Write everything that is made from the record of a run."""

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_gpucluster.plain import private, visible
from pytest_gpucluster.report import ctrf, junit, markdown, record, seal

PAGE, JUNIT, SUMS = seal.PAGE, seal.JUNIT, seal.SUMS

Render = Callable[[Mapping[str, Any]], str]


def write_all(
    run_folder: Path,
    report: Mapping[str, Any] | None = None,
    *,
    say: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write report, page, JUnit, CTRF, Markdown and check sums of a run; return what was written.

    Called at the end of every run, so it never raises for a broken record or a full disk: what cannot be
    written is one line to `say` (by default standard error), and the rest is written all the same.

    Args:
        run_folder: the run's folder.
        report: what its journal comes to; None to fold it.
        say: takes the lines.
    """
    tell = say or _to_stderr
    try:
        report = record.fold(run_folder / record.JOURNAL) if report is None else report
    except record.RecordError as error:
        tell(f"no report: {error}")
        return []
    sums = _sums(run_folder, report)
    made = forms()
    # The report comes last: it has the sums of the others.
    for name in sorted(made, key=record.REPORT.__eq__):
        path = run_folder / name
        try:
            # What an older version wrote down may hold characters that steer a terminal.
            text = made[name](visible.data({**report, "files": dict(sorted(sums.items()))}))
            _write(path, text)
        except Exception as error:  # noqa: BLE001 - one form that fails must not cost the others
            tell(f"{path}: not written: {type(error).__name__}: {error}")
        else:
            sums[name] = hashlib.sha256(as_written(text)).hexdigest()
    written = [run_folder / name for name in made if name in sums]
    try:
        _write(run_folder / SUMS, seal.text(run_folder))
    except OSError as error:
        tell(f"{run_folder / SUMS}: not written: {error}")
    else:
        written.append(run_folder / SUMS)
    private.shut(run_folder)
    return written


def _sums(run_folder: Path, report: Mapping[str, Any]) -> dict[str, str]:
    """Return the sums that a report has before its forms are made: of a run that was killed, those of now."""
    files = seal.inventory(run_folder) if report["run"]["killed"] else report["files"]
    return {**files, record.JOURNAL: seal.sha256(run_folder / record.JOURNAL)}


def forms() -> dict[str, Render]:
    """Return what is made from a report alone: name of the file -> what renders it."""
    return {
        record.REPORT: _json,
        PAGE: _page,
        JUNIT: junit.render,
        seal.CTRF: ctrf.render,
        seal.MARKDOWN: markdown.render,
    }


def as_written(text: str) -> bytes:
    """Return what a form is as a file."""
    return text.encode("utf-8", "backslashreplace")


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
        with os.fdopen(descriptor, "wb") as file:
            file.write(as_written(text))
        temporary.chmod(private.FILE)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"gpucluster: {visible.text(line)}\n")
