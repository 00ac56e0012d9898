"""What the suite costs on the embedded cluster: seconds, scenarios, and API requests a decided requirement.

Reference in the same run: collecting the same tests without running them.
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import time

REQUESTS_PER_ROW = 6


@dataclasses.dataclass(frozen=True)
class Choice:
    """A selection of the suite, and the seconds that it may take on two cores."""

    name: str
    limit: float | None
    args: tuple[str, ...]


CHOICES = (
    Choice("without torch", 75.0, ("-m", "not torch")),
    Choice("without torch, two workers", 50.0, ("-m", "not torch", "-n", "2")),
    Choice("smoke", 20.0, ("-m", "smoke")),
    Choice("with torch", None, ()),
)


def run(folder: pathlib.Path, *args: str) -> float:
    """Return the seconds of one pytest process."""
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "pytest", "suites", "-q", f"--gpucluster-report-dir={folder}", *args],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.monotonic() - began


def measure(choice: Choice, base: float) -> None:
    """Run a selection and print what it took."""
    with tempfile.TemporaryDirectory(prefix="gpucluster-bench-") as scratch:
        seconds = run(pathlib.Path(scratch), *choice.args)
        report = json.loads(next(pathlib.Path(scratch).glob("2*/report.json")).read_text(encoding="utf-8"))
    rows, requests = len(report["requirements"]), report["requests"]["total"]
    spent = {one["name"]: one["seconds"] for one in report["scenarios"]}
    longest = max(spent, key=lambda name: spent[name])
    limit = "no limit" if choice.limit is None else f"limit {choice.limit:.0f} s"
    print(
        f"{choice.name}: {seconds:.1f} s for {rows} rows ({limit}), {seconds / base:.1f} x the reference; "
        f"{requests} API requests, {requests / rows:.1f} a row (limit {REQUESTS_PER_ROW})"
    )
    print(
        f"    {len(spent)} scenarios serve {rows} rows ({rows / len(spent):.1f} each) in {sum(spent.values()):.1f} s; "
        f"the longest is {longest} with {spent[longest]:.1f} s"
    )


def main() -> None:
    """Print seconds, requests and ratios."""
    with tempfile.TemporaryDirectory(prefix="gpucluster-bench-") as scratch:
        base = run(pathlib.Path(scratch), "--collect-only")
    print(f"reference: collecting the suite: {base:.2f} s")
    for choice in CHOICES:
        measure(choice, base)


if __name__ == "__main__":
    main()
