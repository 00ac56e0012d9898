"""`gpucluster report`: write the reports of a run from its journal."""

from collections.abc import Sequence
from pathlib import Path

from pytest_gpucluster.cli import common

DESCRIPTION = """Fold the journal of a run, also of one that was killed, write report.json, report.html, junit.xml and
SHA256SUMS into its folder, and tell the answer. Where the folder was sealed before, its other files must be as they
were: new sums would hide what was changed.
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    parser = common.Parser("report", description=DESCRIPTION, epilog=common.ANSWER_STATUS)
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run")
    folder = common.existing(parser.parse_args(arguments).run, "run folder")
    from pytest_gpucluster.report import record, scope, seal, verify, write

    if not (folder / record.JOURNAL).exists():
        raise common.CliError(f"{folder} is no folder of a run: it has no {record.JOURNAL}")
    if (folder / write.SUMS).exists():
        wrong = seal.check(folder.resolve(), but=write.forms())
        for name, what in wrong.items():
            if name not in write.forms():
                raise common.CliError(
                    f"{folder / name}: {what}: the reports are not made again", verify.TAMPERED
                )
    problems: list[str] = []
    for path in write.write_all(folder, say=problems.append):
        common.say(str(path))
    if problems:
        raise common.CliError("; ".join(problems), verify.TAMPERED)
    report = record.load(folder)
    changed = verify.changed_evidence(folder, report)
    if changed:
        raise common.CliError(
            f"the evidence is not that of the run: {changed[0]}: no answer", verify.TAMPERED
        )
    common.say(f"answer: {scope.banner(report)}")
    return verify.status_of(report["answer"]["word"])
