"""Two runs of the suite, one on each side, and everything in which they differ."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

from tests.comparison import differences, streams


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of the suite.

    Attributes:
        folder: the run's folder.
        verdicts: row -> verdict.
        scenarios: scenario -> file with its evidence.
        idle: scenarios none of whose rows is applicable: they ended before they did anything.
        rows: scenario -> its rows.
    """

    folder: Path
    verdicts: Mapping[str, str]
    scenarios: Mapping[str, Path]
    idle: frozenset[str] = frozenset()
    rows: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Run":
        """Read the record and find the evidence of a run."""
        rows = json.loads((folder / "report.json").read_text(encoding="utf-8"))["requirements"]
        evidence = {path.stem: path for path in sorted((folder / "evidence").glob("*.jsonl"))}
        verdicts = {row["id"]: row["verdict"] for row in rows}
        told = {name: frozenset(r["id"] for r in rows if r["scenario"] == name) for name in evidence}
        idle = frozenset(
            name for name, ids in told.items() if {verdicts[each] for each in ids} == {"not_applicable"}
        )
        return cls(folder, verdicts, evidence, idle, told)


def tried(run: Run) -> list[str]:
    """Return the rows of scenarios that did something in a run, sorted."""
    return sorted({row for name, rows in run.rows.items() if name not in run.idle for row in rows})


def compared(embedded: Run, real: Run) -> set[str]:
    """Return the scenarios that did something on both sides."""
    return (embedded.scenarios.keys() & real.scenarios.keys()) - embedded.idle - real.idle


def differing(embedded: Run, real: Run) -> list[differences.Difference]:
    """Return everything in which two runs differ."""
    found = differences.of_verdicts(embedded.verdicts, real.verdicts)
    for scenario in sorted(compared(embedded, real)):
        ours, theirs = (streams.read(each.scenarios[scenario]) for each in (embedded, real))
        found += differences.of_streams(scenario, ours, theirs)
    return found
