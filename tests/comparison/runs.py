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
    """

    folder: Path
    verdicts: Mapping[str, str]
    scenarios: Mapping[str, Path]
    idle: frozenset[str] = frozenset()

    @classmethod
    def read(cls, folder: Path) -> "Run":
        """Read the record and find the evidence of a run."""
        rows = json.loads((folder / "report.json").read_text(encoding="utf-8"))["requirements"]
        evidence = {path.stem: path for path in sorted((folder / "evidence").glob("*.jsonl"))}
        told: dict[str, set[str]] = {}
        for row in rows:
            told.setdefault(row["scenario"], set()).add(row["verdict"])
        idle = frozenset(name for name, verdicts in told.items() if verdicts == {"not_applicable"})
        return cls(folder, {row["id"]: row["verdict"] for row in rows}, evidence, idle)


def differing(embedded: Run, real: Run) -> list[differences.Difference]:
    """Return everything in which two runs differ."""
    found = differences.of_verdicts(embedded.verdicts, real.verdicts)
    compared = (embedded.scenarios.keys() & real.scenarios.keys()) - embedded.idle - real.idle
    for scenario in sorted(compared):
        ours, theirs = (streams.read(each.scenarios[scenario]) for each in (embedded, real))
        found += differences.of_streams(scenario, ours, theirs)
    return found
