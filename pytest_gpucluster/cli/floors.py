"""`gpucluster floors`: propose floors from the reports of accepted runs."""

from collections.abc import Sequence
from pathlib import Path

from pytest_gpucluster.cli import common

DESCRIPTION = """Propose floors from the reports of accepted runs, as YAML for a profile. For each figure the lowest
5th percentile of any GPU and run counts, minus a margin. Figures are left out and named if their row failed or their
transport or devices were not shown to be the declared ones.
"""

EXITS = {0: "proposed", **common.MISTAKE}

EXAMPLES = """Example: gpucluster floors --from runs/1/report.json runs/2/report.json >> prod-a.yaml
"""


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("floors", DESCRIPTION, EXITS, EXAMPLES)
    parser.add_argument(
        "--from",
        dest="reports",
        metavar="REPORT",
        nargs="+",
        type=Path,
        required=True,
        help="report.json of a run",
    )
    parser.add_argument(
        "--margin",
        metavar="SHARE",
        default="0.05",
        help="margin below the lowest figure, as a part of it (0.05)",
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options = parser().parse_args(arguments)
    margin = _margin(options.margin)
    paths = [common.existing(path, "report") for path in options.reports]
    import yaml

    from pytest_gpucluster.measure import baseline, proposing

    try:
        figures = [baseline.read(path / "report.json" if path.is_dir() else path) for path in paths]
        proposed = proposing.profile(figures, margin)
    except (baseline.BaselineError, proposing.ProposalError) as error:
        raise common.CliError(str(error)) from None
    for one in figures:
        for why in one.get("left_out") or ():
            common.say(f"# {one['origin']}: no floors of {why}")
    common.say(yaml.safe_dump(proposed, sort_keys=False, allow_unicode=True, width=120).rstrip())
    return 0


def _margin(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise common.CliError(f"--margin {text!r}: must be a number from 0 to below 1, such as 0.05")
    return value
