"""`gpucluster verify`: reach every verdict of a run again from its files alone."""

from collections.abc import Sequence
from pathlib import Path

from pytest_gpucluster.cli import common

DESCRIPTION = """Check every file of a run against its recorded SHA-256 and decide every row again from the
evidence. No cluster is touched. A file that is missing or changed and a verdict that is not reached again are
one line each. Requirements of a site's own are decided again by their module, named with --module; plain tests of a
site are asserted, and not decided again.
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    parser = common.Parser(
        "verify", description=DESCRIPTION, epilog="exit status: 0 verified, 1 something differs, 2 mistake"
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run")
    common.add_module_option(parser)
    options = parser.parse_args(arguments)
    folder = common.existing(options.run, "run folder")
    from pytest_gpucluster.report import record, verify

    try:
        found = verify.verify(folder, registry=common.registry(options.module))
    except record.RecordError as error:
        raise common.CliError(str(error)) from None
    for note in found.notes:
        common.say(f"note: {note}")
    for problem in found.problems:
        common.say(f"differs: {problem}")
    common.say(
        f"{found.decided_again} verdicts decided again from evidence: "
        + ("all as recorded" if found.ok else f"{len(found.problems)} differences")
    )
    return 0 if found.ok else 1
