"""`gpucluster verify`: decide every verdict of a run again from its files alone."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpucluster.cli import common

if TYPE_CHECKING:
    from pytest_gpucluster.report.verify import Verification

DESCRIPTION = """Check every file in the folder of a run against its SHA-256, decide every row again from the evidence,
make report, page and JUnit again from the journal, and print the answer. The gate of a run that had a policy is
decided again, as of the end of the run. No cluster is touched; links are not followed.
Each missing, changed or added file and each verdict that is not reached again is named; several with the same
trouble share a line. A site's own requirements are decided again by their module, named with --module; a site's plain
tests are asserted, not decided again.
"""
EXITS = {
    **common.ANSWER_EXITS,
    common.USAGE: f"{common.MISTAKE[common.USAGE]}, or a row whose module was not named",
}
_SHOWN = 4
"""So many files or rows of which the same is said are named."""
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("verify", DESCRIPTION, EXITS)
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run")
    parser.add_argument(
        "--digest",
        metavar="SHA256",
        help="the digest that the run printed at its end: the folder must have the same",
    )
    common.add_module_option(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options = parser().parse_args(arguments)
    folder = common.existing(options.run, "run folder")
    from pytest_gpucluster.report import record, verify, write

    if not any((folder / name).exists() for name in (record.JOURNAL, record.REPORT, write.SUMS)):
        raise common.CliError(f"{folder} is not the folder of a run: it has no {record.JOURNAL}")
    if options.digest is not None and not _SHA256.fullmatch(options.digest):
        raise common.CliError(
            f"--digest {options.digest!r}: expected the 64 hexadecimal digits of the line `digest`"
        )
    from pytest_gpucluster.acceptance import runs

    registry, reading = common.registry(options.module), runs.Reading()
    try:
        found = verify.verify(folder, registry=registry, read=reading, digest=options.digest)
        report = record.load(folder)
    except record.RecordError as error:
        raise common.CliError(str(error), status=verify.TAMPERED) from None
    if report["decision"] and found.ok:
        from pytest_gpucluster.acceptance import own

        wrong = own.differs(folder, report, registry, reading)
        found = dataclasses.replace(found, problems=(*found.problems, *wrong))
    if found.killed and found.problems:
        common.say(
            "note: the run was killed before its end: it wrote neither report nor sums, so its files cannot be "
            f"compared; `gpucluster report {options.run}` makes the report from what its journal has"
        )
    for note in found.notes:
        common.say(f"note: {note}")
    for problem in _grouped(found.problems):
        common.say(f"differs: {problem}")
    for row in found.unnamed:
        common.say(f"not verified: {row}")
    _say_result(found)
    return found.status


def _grouped(problems: Sequence[str]) -> Iterator[str]:
    """Yield problems; several files or rows of which the same is said stand in one line."""
    by_what: dict[str, list[str]] = {}
    for problem in problems:
        name, _, what = problem.partition(": ")
        by_what.setdefault(what, []).append(name)
    for what, of in by_what.items():
        shown = ", ".join(of[:_SHOWN])
        more = f" and {len(of) - _SHOWN} more" if len(of) > _SHOWN else ""
        yield f"{shown}{more}: {what}" if what else shown


def _say_result(found: "Verification") -> None:
    """Say what was verified, and the answer if all was."""
    again = f"{common.counted(found.decided_again, 'verdict')} decided again from evidence"
    sealed = f"{common.counted(found.files, 'file')} as sealed"
    forms = f"made again and the same: {', '.join(found.rendered) or 'nothing'}"
    common.say(f"verified: {again}, {sealed}; {forms}")
    if found.digest:
        common.say(f"digest: {found.digest}")
    if found.problems:
        common.say(
            f"answer: none: the record does not hold: {common.counted(len(found.problems), 'difference')}"
        )
    elif found.unnamed:
        rows = common.counted(len(found.unnamed), "row")
        common.say(
            f"answer: not verified: {rows} could not be decided again; it was recorded as: {found.banner}"
        )
    else:
        common.say(f"answer: {found.banner}")
