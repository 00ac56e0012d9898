"""`gpucluster report`: write the reports of a run from its journal."""

from collections.abc import Sequence
from pathlib import Path

from pytest_gpucluster.cli import common

DESCRIPTION = """Fold the journal of a run, also of one that was killed, and write report.json, report.html,
junit.xml and SHA256SUMS into its folder.
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    parser = common.Parser(
        "report", description=DESCRIPTION, epilog="exit status: 0 all written, 1 not all, 2 mistake"
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run")
    folder = common.existing(parser.parse_args(arguments).run, "run folder")
    from pytest_gpucluster.report import record, write

    if not (folder / record.JOURNAL).is_file():
        raise common.CliError(f"{folder} is no folder of a run: it has no {record.JOURNAL}")
    problems: list[str] = []
    for path in write.write_all(folder, say=problems.append):
        common.say(str(path))
    if problems:
        raise common.CliError("; ".join(problems), status=1)
    return 0
