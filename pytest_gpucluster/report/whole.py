"""Whether the folder of a run is the one of which its record tells: each file by its sum, no file more or less."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_gpucluster.report import seal


def digest(folder: Path) -> str:
    """Return the one sum that stands for all files of a run, "" where there is no report."""
    path = folder / seal.REPORT
    return seal.sha256(path) if path.is_file() and not path.is_symlink() else ""


def differs(folder: Path, report: Mapping[str, Any], folded: Mapping[str, Any]) -> dict[str, str]:
    """Return what of a folder is not as its record has it: name -> what is wrong with it.

    Args:
        folder: the run's folder.
        report: what `report.json` says, or the folded journal where there is none.
        folded: what the journal comes to.
    """
    by_report = report["files"]
    beside = {name: sum_ for name, sum_ in by_report.items() if name not in seal.OF_THE_RECORD}
    # A run that was killed has no end that names its files: those of when its report was made count.
    recorded = beside if folded["run"]["killed"] else folded["files"]
    wrong = seal.differs(folder, recorded)
    if not by_report and recorded:
        wrong[seal.REPORT] = f"names no files, but {seal.JOURNAL} does"
    if by_report:
        own = {name: sum_ for name, sum_ in by_report.items() if name in seal.OF_THE_RECORD}
        wrong |= {name: what for name, what in seal.differs(folder, own).items() if name in own}
        if beside != recorded:
            wrong.setdefault(seal.REPORT, f"names other files or sums than {seal.JOURNAL}")
    return wrong


def forms_missing(folder: Path) -> dict[str, str]:
    """Return which of the forms that each run has are not there; others are missing if the record names their sums."""
    return {
        name: f"the file is missing; `gpucluster report` makes it again from {seal.JOURNAL}"
        for name in seal.EVER_MADE
        if not (folder / name).is_file()
    }


def was_sealed(folder: Path, folded: Mapping[str, Any]) -> bool:
    """Report whether a folder must have its sums: its run came to its end, or its reports were made."""
    return not folded["run"]["killed"] or len(forms_missing(folder)) < len(seal.EVER_MADE)
