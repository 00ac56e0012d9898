"""The text of a finding, in the order of the catalogue, for a terminal of 100 columns.

Verdict and id; the MUST sentence; required and observed; where; causes with their fix; how to repeat; where the
evidence lies.
"""

import os
import shlex
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from pytest_gpucluster.plain import visible
from pytest_gpucluster.report import suites
from pytest_gpucluster.requirement import Finding, Number, Refusal, Requirement, Verdict

WIDTH = 100

WORDS: Mapping[Verdict, str] = {
    Verdict.PASS: "PASS",
    Verdict.FAIL: "VIOLATION",
    Verdict.ENVIRONMENT: "ENVIRONMENT",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE",
    Verdict.NOT_APPLICABLE: "NOT APPLICABLE",
}
"""How a verdict is called where a person reads it."""

_MEANING: Mapping[Verdict, str] = {
    Verdict.ENVIRONMENT: "not tested: a precondition was not met",
    Verdict.INCONCLUSIVE: "not decided: the evidence does not suffice",
    Verdict.NOT_APPLICABLE: "the profile does not declare this",
}

_INDENT = 10
_KEYS_SHOWN = 6


def failure_text(
    requirement: Requirement,
    finding: Finding,
    *,
    evidence_path: Path | None = None,
    nodeid: str = "",
    run_folder: Path | None = None,
    cluster: str | None = None,
    defects: Sequence[str] = (),
    waived: str = "",
    modules: Sequence[str] = (),
    given: Sequence[str] = (),
    foreign: bool = False,
    options: Sequence[str] = (),
    gone: Collection[str] = (),
    kubectl: Sequence[str] = (),
) -> str:
    """Return the text of a finding; also used for a pass by `gpucluster judge`.

    Args:
        requirement: the row.
        finding: what was decided.
        evidence_path: the file that was judged.
        nodeid: pytest's name of the test, "" outside pytest.
        run_folder: the run; given together with an evidence path inside it, the path is shown from there.
        cluster: the profile's name for the line that repeats the test, None for the default.
        defects: planted defects, for the same line.
        waived: the waiver in force, in one line; "" without one.
        modules: what was named with `--module` to have the row; by default, for a row that is not shipped, the file of
            its test.
        given: what was told with `--given`, to judge the evidence again.
        foreign: whether the evidence is of no run of the suite, so that no run of the suite repeats it.
        options: further options for the line that repeats the test.
        gone: words of commands that look for what went with the run, such as its id; `EVERYTHING` if the cluster went
            with it. Such commands would find nothing, and are left out.
        kubectl: options with which kubectl reaches the cluster.
    """
    modules = modules or _own_module(requirement, nodeid)
    parts = [
        _head(requirement, finding),
        _fill(requirement.text, indent=2),
        "",
        *([_field("waived", f"{waived}; the row stays red")] if waived else []),
        _field("required", finding.required),
        _field("observed", finding.observed),
        *(
            _field("measured" if n == 0 else "", number_text(number))
            for n, number in enumerate(finding.numbers)
        ),
        *_refusal(finding),
        *_listed("where", finding.where),
        *_causes(finding),
        *_repeat(
            [] if foreign else _played(requirement, nodeid, [*_named(cluster), *options, *_planted(defects)]),
            [line.replace("kubectl", shlex.join(["kubectl", *kubectl]), 1) for line in finding.repeat],
            gone,
        ),
        *_evidence(requirement, finding, evidence_path, run_folder, _words(modules, given)),
    ]
    return visible.text("\n".join(part.rstrip() for part in parts))


def number_text(number: Number) -> str:
    """Return a measured value with its bound and the bound's origin."""
    if number.value is None:
        return f"{number.name}: not measured"
    text = f"{number.name}: {figure(number.value)} {number.unit}".rstrip()
    if number.bound is None:
        return f"{text} (no limit declared)"
    origin = f", from {number.origin}" if number.origin else ""
    # Not "bound", which is also what happens to a pod.
    word = "floor" if number.floor else "limit"
    return f"{text} ({word} {figure(number.bound)} {number.unit}".rstrip() + f"{origin})"


def refusal_text(refusal: Refusal | None) -> str:
    """Return who refused, where it was said and at which gate, "" where nothing was refused."""
    if refusal is None:
        return ""
    said = f", in words: {refusal.text}" if refusal.text else ""
    return (
        f"{refusal.component}, at {refusal.meaning}: {refusal.reason} "
        f"reported by {refusal.reporter} on {refusal.obj}{said}"
    )


def figure(value: float) -> str:
    """Return a number with four digits that count."""
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def _head(requirement: Requirement, finding: Finding) -> str:
    meaning = _MEANING.get(finding.verdict)
    note = f" ({meaning})" if meaning else ""
    return _fill(f"{WORDS[finding.verdict]} {requirement.id}{note}: {requirement.title}", hanging=2)


def _refusal(finding: Finding) -> list[str]:
    text = refusal_text(finding.refusal)
    return [_field("refusal", text)] if text else []


def _causes(finding: Finding) -> list[str]:
    lines: list[str] = []
    for number, cause in enumerate(finding.causes):
        lines.append(_field("cause" if number == 0 else "or", cause.text))
        if cause.fix:
            lines.append(_field("  fix", cause.fix))
    return lines


def _named(cluster: str | None) -> list[str]:
    return [f"--cluster={cluster}"] if cluster else []


def _planted(defects: Sequence[str]) -> list[str]:
    return [f"--gpucluster-defect={name}" for name in defects]


def _words(modules: Sequence[str], given: Sequence[str]) -> list[str]:
    """Return the options with which `gpucluster judge` comes to the same finding."""
    named = [word for module in modules for word in ("--module", module)]
    return [*named, *(word for told in given for word in ("--given", told))]


def _played(requirement: Requirement, nodeid: str, options: list[str]) -> list[str]:
    """Return the command that plays the scenario again and decides the row."""
    return [shlex.join(["pytest", *target(requirement.where, nodeid), "-k", requirement.id, *options])]


EVERYTHING = "*"
"""Stands for all that a cluster had which ended with its run."""


def _in_vain(line: str, gone: Collection[str]) -> bool:
    """Report whether a command looks for what is gone."""
    return EVERYTHING in gone or any(word in f"{line} " for word in gone)


def _repeat(played: list[str], repeat: Sequence[str], gone: Collection[str]) -> list[str]:
    # A command is never wrapped: it is there to be copied.
    looks = [line for line in repeat if not _in_vain(line, gone)]
    if played and len(looks) < len(repeat) and EVERYTHING not in gone:
        looks.append(f"{played[0]} --gpucluster-keep  # leaves its objects, to look at them")
    return [
        f"{'repeat' if number == 0 else '':<{_INDENT}}{line}" for number, line in enumerate([*played, *looks])
    ]


def target(where: str, nodeid: str) -> list[str]:
    """Return where pytest finds a test: the shipped suite by its place, any other test by its node id.

    Args:
        where: the module of the declaration, see `Requirement.where`.
        nodeid: pytest's name of the test, "" outside pytest.
    """
    shipped = _shipped(where)
    return shipped or ([nodeid] if nodeid else [])


def _shipped(where: str) -> list[str]:
    """Return how pytest is told of the shipped suites, [] for a row that they do not declare."""
    package = where.partition(":")[0]
    if package.startswith(("pytest_gpucluster.suites.", "suites.")):
        here = suites.location()
        # In the checkout's own folder the short way, which needs no installation.
        near = here is not None and here == (Path("suites").resolve(), package.partition(".")[0])
        return ["suites"] if near else ["--pyargs", "pytest_gpucluster.suites"]
    return []


def _own_module(requirement: Requirement, nodeid: str) -> list[str]:
    """Return the file of a test that the commands do not know by themselves."""
    file = nodeid.partition("::")[0]
    return [file] if file and not _shipped(requirement.where) else []


def _evidence(
    requirement: Requirement,
    finding: Finding,
    path: Path | None,
    run_folder: Path | None,
    options: Sequence[str],
) -> list[str]:
    lines: list[str] = []
    if path is not None:
        shown = _shown(path, run_folder)
        again = shlex.join(["gpucluster", "judge", shown, "--requirement", requirement.id, *options])
        lines += [f"{'evidence':<{_INDENT}}{shown}", f"{'':<{_INDENT}}{again}"]
    if finding.evidence:
        keys = [*finding.evidence[:_KEYS_SHOWN]]
        if len(finding.evidence) > _KEYS_SHOWN:
            keys.append(f"and {len(finding.evidence) - _KEYS_SHOWN} more")
        lines.append(_field("lines" if lines else "evidence", ", ".join(keys)))
    return lines


def _shown(path: Path, run_folder: Path | None) -> str:
    """Return a path as short as it can be while it still opens from the present folder."""
    full = str((run_folder / path if run_folder and not path.is_absolute() else path).resolve())
    near = os.path.relpath(full)
    return full if near.startswith("..") else near


def _listed(name: str, values: Iterable[str]) -> list[str]:
    return [_field(name if number == 0 else "", value) for number, value in enumerate(values)]


def _field(name: str, text: str) -> str:
    label = f"{name:<{_INDENT}}" if len(name) < _INDENT else f"{name} "
    return textwrap.fill(
        " ".join(text.split()) or "-",
        WIDTH,
        initial_indent=label,
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _fill(text: str, *, indent: int = 0, hanging: int = 0) -> str:
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )
