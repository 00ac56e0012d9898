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
    """

    folder: Path
    verdicts: Mapping[str, str]
    scenarios: Mapping[str, Path]

    @classmethod
    def read(cls, folder: Path) -> "Run":
        """Read the record and find the evidence of a run."""
        rows = json.loads((folder / "report.json").read_text(encoding="utf-8"))["requirements"]
        evidence = {path.stem: path for path in sorted((folder / "evidence").glob("*.jsonl"))}
        return cls(folder, {row["id"]: row["verdict"] for row in rows}, evidence)


def differing(embedded: Run, real: Run) -> list[differences.Difference]:
    """Return everything in which two runs differ."""
    found = differences.of_verdicts(embedded.verdicts, real.verdicts)
    for scenario in sorted(embedded.scenarios.keys() & real.scenarios.keys()):
        ours, theirs = (streams.read(each.scenarios[scenario]) for each in (embedded, real))
        found += differences.of_streams(scenario, ours, theirs)
    return found
