"""`gpucluster report`: write the reports of a run from its journal."""

from collections.abc import Sequence
from pathlib import Path

from pytest_gpucluster.cli import common

DESCRIPTION = """Fold the journal of a run, even of a killed one, write report.json, report.html, junit.xml,
ctrf.json, report.md and SHA256SUMS into its folder, and print the answer. If the folder was sealed before, its other
files must be unchanged and its sums must exist: new sums would hide changes.
"""


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("report", DESCRIPTION, common.ANSWER_EXITS)
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    folder = common.existing(parser().parse_args(arguments).run, "run folder")
    from pytest_gpucluster.report import record, scope, seal, verify, whole, write

    if not (folder / record.JOURNAL).exists():
        raise common.CliError(f"{folder} is not the folder of a run: it has no {record.JOURNAL}")
    for name, what in _changed(folder.resolve()).items():
        if name not in seal.MADE:
            raise common.CliError(f"{folder / name}: {what}: the reports are not made again", verify.TAMPERED)
    problems: list[str] = []
    for path in write.write_all(folder, say=problems.append):
        common.say(str(path))
    if problems:
        raise common.CliError("; ".join(problems), verify.TAMPERED)
    report = record.load(folder)
    changed = verify.changed_evidence(folder, report)
    if changed:
        raise common.CliError(
            f"the evidence differs from the run's: {changed[0]}: no answer", verify.TAMPERED
        )
    common.say(f"digest: {whole.digest(folder)}")
    common.say(f"answer: {scope.banner(report)}")
    return verify.status_of(report["answer"]["word"])


def _changed(folder: Path) -> dict[str, str]:
    """Return what was changed in a folder since it was sealed, nothing for one that never was."""
    from pytest_gpucluster.report import record, seal, whole

    try:
        folded = record.fold(folder / record.JOURNAL)
    except record.RecordError:
        folded = None
    if not (folder / seal.SUMS).exists() and (folded is None or not whole.was_sealed(folder, folded)):
        return {}
    wrong = seal.check(folder, but=seal.MADE)
    if wrong or folded is None:
        return wrong
    try:
        report = record.load(folder)
    except record.RecordError:
        report = folded  # it is made again
    return whole.differs(folder, report, folded) if folded["files"] or report["files"] else {}
