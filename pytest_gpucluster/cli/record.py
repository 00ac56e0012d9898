"""`gpucluster record`: run one scenario on a cluster and keep a recording of it."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.cli import common
from pytest_gpucluster.plain import private

if TYPE_CHECKING:
    from pytest_gpucluster.requirement import Requirement

DESCRIPTION = """Run one scenario of the suite on a cluster and write a recording of it: events.jsonl,
responses.jsonl and manifest.yaml, as in fixtures/recorded. Names of nodes, of the run and of its namespace, uids,
addresses and times are masked or numbered; contents of Secrets are replaced by their size.
"""

EXAMPLES = """Example: gpucluster record scarce --cluster=kind --set scheduler=native --out recordings/scarce
Then:    gpucluster judge recordings/scarce --requirement GANG-002
"""

FILES = ("events.jsonl", "responses.jsonl", "manifest.yaml")
RAN = (0, 1)
"""Exit status of pytest when rows were decided."""
NOT_RUN = 3
"""Exit status if the scenario did not run."""

EXITS = {0: "recorded, whatever the verdicts are", **common.MISTAKE, NOT_RUN: "the scenario did not run"}


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("record", DESCRIPTION, EXITS, EXAMPLES)
    parser.add_argument("scenario", metavar="SCENARIO", help="name of a scenario: gpucluster record --list")
    common.add_cluster_options(parser, default=None)
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="default: recordings/CLUSTER/SCENARIO")
    parser.add_argument(
        "--list", action="store_true", help="list the scenarios and their rows, and run nothing"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    if "--list" in arguments:
        return _list()
    options = parser().parse_args(arguments)
    if not options.cluster:
        raise common.CliError("record: name the cluster: --cluster NAME")
    scenarios = _scenarios()
    rows = scenarios[common.choose(options.scenario, scenarios, "scenario")]
    loaded = common.load_profile(options.cluster, options.profiles, options.set)
    out = options.out or Path("recordings") / options.cluster / options.scenario
    if out.exists() and (not out.is_dir() or not {each.name for each in out.iterdir()} <= set(FILES)):
        raise common.CliError(f"record: {out} exists but is not a recording: name another folder with --out")
    from pytest_gpucluster.scenario import offered

    if problem := offered.ask(loaded).problem:
        raise common.CliError(problem)
    with tempfile.TemporaryDirectory(prefix="gpucluster-record-") as folder:
        evidence = _run(options, rows, Path(folder))
        _write(evidence, out)
    return 0


def _list() -> int:
    common.say_table(
        (name, " ".join(each.id for each in rows)) for name, rows in sorted(_scenarios().items())
    )
    return 0


def _scenarios() -> dict[str, list["Requirement"]]:
    """Return the scenarios of the suite with the rows that are judged on each."""
    found: dict[str, list[Requirement]] = {}
    for requirement in common.registry():
        found.setdefault(requirement.scenario.name, []).append(requirement)
    return found


def _run(options: Any, rows: Sequence["Requirement"], folder: Path) -> Path:
    """Run the rows of the scenario and return the file with its evidence."""
    from pytest_gpucluster.report import suites

    where = suites.location()
    if where is None:
        raise common.CliError("record: the suites are not installed")
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(where[0]),
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
    ]
    command += ["--cluster", options.cluster, "--gpucluster-report-dir", str(folder)]
    command += [f"--gpucluster-set={each}" for each in options.set]
    command += [word for each in options.profiles for word in ("--gpucluster-profiles", str(each))]
    command += ["-k", " or ".join(row.id for row in rows)]
    log = folder / "pytest.log"
    # Only our own words count: options of the user's other test runs are not for this one.
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    with private.opened(log, "w") as file:
        status = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            check=False,
        ).returncode
    evidence = next(iter(folder.glob(f"*/evidence/{options.scenario}.jsonl")), None)
    why = _why(folder, log) if evidence is None or status not in RAN else _problem(evidence)
    if evidence is None or why:
        raise common.CliError(f"record: scenario {options.scenario} did not run: {why}", NOT_RUN)
    for row in _report(folder):
        common.say(f"{row['id']}  {row['verdict']}")
    return evidence


def _problem(evidence: Path) -> str:
    """Return why a scenario ended before it had shown anything, "" where it ran: its evidence says so itself."""
    with evidence.open(encoding="utf-8") as file:
        problem = json.loads(file.readline()).get("problem") or {}
    return str(problem.get("text") or "")


def _report(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the run's record."""
    for path in folder.glob("*/report.json"):
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["requirements"]
        return [row for row in rows if row["verdict"] not in ("", None, "not_run", "not_built")]
    return []


def _why(folder: Path, log: Path) -> str:
    """Return why nothing was recorded: what the rows say, else the end of what pytest wrote."""
    said = [
        str((row.get("finding") or row).get(key) or "")
        for row in _report(folder)
        for key in ("observed", "reason")
    ]
    words = [each for each in said if each] or log.read_text(encoding="utf-8").strip().splitlines()[-1:]
    return words[0] if words else "pytest said nothing"


def _write(evidence: Path, out: Path) -> None:
    """Write the recording."""
    import yaml

    from pytest_gpucluster.evidence.log import recording

    with evidence.open(encoding="utf-8") as file:
        made = recording.normalised(json.loads(line) for line in file)
    private.folder(out)
    texts = {
        "events.jsonl": recording.as_lines(made.events),
        "responses.jsonl": recording.as_lines(made.responses),
        "manifest.yaml": yaml.safe_dump_all(made.manifest, sort_keys=True),
    }
    for name, text in texts.items():
        private.write(out / name, text)
    events, answers = common.counted(len(made.events), "event"), common.counted(len(made.responses), "answer")
    common.say(f"recorded  {out} ({events}, {answers})")
