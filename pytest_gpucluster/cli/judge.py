"""`gpucluster judge`: decide one requirement on evidence of any origin."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_gpucluster.cli import common
from pytest_gpucluster.requirement import DeclarationError, Requirement, Verdict

STATUS = {
    Verdict.PASS: 0,
    Verdict.FAIL: 1,
    Verdict.ENVIRONMENT: 3,
    Verdict.INCONCLUSIVE: 3,
    Verdict.NOT_APPLICABLE: 4,
}
"""Verdict -> exit status; 2 is a mistake of the user."""

DESCRIPTION = """Decide one requirement on evidence: a file of a run, a recorded stream, or output of kubectl.
Several files count as one evidence. No cluster is touched.

`gpucluster judge nccl LOG...` decides on the logs of a job's ranks alone; see gpucluster judge nccl --help.
"""

EXITS = {
    0: "pass",
    1: "violation",
    **common.MISTAKE,
    3: "environment or inconclusive: not decided",
    4: "not applicable",
}

EXAMPLES = """Example: gpucluster judge reports/latest/evidence/scarce.jsonl --requirement GANG-002 --given window=3
"""


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("judge", DESCRIPTION, EXITS, EXAMPLES)
    parser.add_argument("streams", metavar="STREAM", nargs="+", type=Path, help="file or folder of evidence")
    parser.add_argument("--requirement", metavar="ID", required=True, help="row to decide, such as GANG-002")
    parser.add_argument(
        "--given",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="give the judge a value (YAML; dots go into mappings); overrides the evidence's header",
    )
    common.add_module_option(parser)
    parser.add_argument("--json", action="store_true", help="print the finding as JSON")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options = parser().parse_args(arguments)
    told = _given(options.given)
    for stream in options.streams:
        common.existing(stream, "file or folder")
    requirement = _requirement(options.requirement, options.module)
    with common.reading(options.streams, "judged"):
        return _judge(requirement, told, options)


def _judge(requirement: Requirement, told: dict[str, Any], options: Any) -> int:
    from pytest_gpucluster.evidence.log import cleaning, errors, ingest
    from pytest_gpucluster.report import decisions, text

    try:
        evidence = cleaning.cleaned(ingest.read(options.streams))
    except errors.EvidenceError as error:
        raise common.CliError(str(error)) from None
    _check("", told, evidence.given)
    given = _merged(evidence.given, told)
    try:
        finding = decisions.decide(requirement, evidence, given)
        states = decisions.presupposed(requirement, evidence, given)
    except (KeyError, TypeError, ValueError) as error:
        raise common.CliError(
            f"{requirement.id} cannot be decided on this evidence with the given values "
            f"({', '.join(sorted(given)) or 'nothing'}): {type(error).__name__}: {error}"
        ) from error
    if options.json:
        common.say_json({"id": requirement.id, **finding.as_dict(), "presupposed": states})
    else:
        path = options.streams[0] if len(options.streams) == 1 else None
        source = evidence.header.get("source")
        ours = source if isinstance(source, Mapping) and source.get("run") else {}
        shown = text.failure_text(
            requirement,
            finding,
            evidence_path=path,
            cluster=str(ours.get("cluster") or "") or None,
            defects=[str(name) for name in ours.get("defects") or ()],
            modules=options.module,
            given=options.given,
            foreign=not ours,
            gone=_gone(ours),
        )
        common.say(shown)
    return STATUS[finding.verdict]


def _gone(ours: Mapping[str, Any]) -> list[str]:
    """Return what nobody finds after the run of which the evidence is: all of a cluster that it made, else its own."""
    from pytest_gpucluster.profile import BUILT_IN
    from pytest_gpucluster.report import text

    if not ours:
        return []
    if str(ours.get("cluster")) in BUILT_IN:
        return [text.EVERYTHING]
    own = str(ours.get("run")).rpartition("-")[2]
    return [word for word in (own, f"-n {ours.get('namespace')} ") if word]


def _requirement(row_id: str, modules: Sequence[str]) -> Requirement:
    from pytest_gpucluster.requirement import catalogue

    registry = common.registry(modules)
    try:
        return registry.get(row_id)
    except DeclarationError as error:
        common.check_site(row_id, (row.id for row in registry), modules)
        known = catalogue.row(row_id)
        if known is not None:
            raise common.CliError(
                f"requirement {row_id} is not built: it has no judge in this version"
            ) from None
        raise common.CliError(str(error)) from None


def _given(texts: Sequence[str]) -> dict[str, Any]:
    import yaml

    told: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise common.CliError(f"--given {text!r}: expected KEY=VALUE, such as window=3")
        try:
            parsed = yaml.safe_load(value)
        except yaml.YAMLError:
            raise common.CliError(f"--given {text!r}: the value is not valid YAML") from None
        _put(told, key.split("."), parsed, text)
    return told


def _put(told: dict[str, Any], path: list[str], value: Any, text: str) -> None:
    for key in path[:-1]:
        inner = told.setdefault(key, {})
        if not isinstance(inner, dict):
            raise common.CliError(f"--given {text!r}: {key!r} already has a value that is not a mapping")
        told = inner
    told[path[-1]] = value


NUMBERS = frozenset(
    {
        "window",
        "scheduler_period",
        "bind_spread",
        "start_spread",
        "recovery",
        "members",
        "min_member",
        "total",
        "world",
    }
)
"""What judges reckon with, also if the evidence does not tell it."""


def _check(path: str, above: dict[str, Any], below: Any) -> None:
    """Refuse a value of another kind than the one in whose place it stands, and a number that measures nothing."""
    known = below if isinstance(below, Mapping) else {}
    for key, value in above.items():
        name, before = f"{path}{key}", known.get(key)
        if isinstance(value, dict) and isinstance(before, Mapping):
            _check(f"{name}.", value, before)
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and not (math.isfinite(value) and value > 0) and value != before:
            raise common.CliError(f"--given {name}={value}: needs a number above 0")
        wanted = _kind(before) if before is not None else _kind(1) if name in NUMBERS else ""
        if wanted and _kind(value) != wanted:
            raise common.CliError(f"--given {name}: needs {wanted}, got {_kind(value)}: {value!r}")


def _kind(value: object) -> str:
    """Return what a value is, as an error line names it."""
    if isinstance(value, bool):
        return "true or false"
    kinds: tuple[tuple[Any, str], ...] = (
        (int | float, "a number"), (str, "a text"), (Mapping, "a mapping"), (list | tuple, "a list"),
    )  # fmt: skip
    return next((word for kind, word in kinds if isinstance(value, kind)), "nothing")


def _merged(below: Any, above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _merged(under, value) if isinstance(value, dict) and isinstance(under, dict) else value
    return merged
