"""What the suite costs on the embedded cluster: seconds, and API requests a decided requirement.

Reference in the same run: collecting the same tests without running them.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

LIMITS = {"without torch": 45.0, "with torch": 75.0}
"""Seconds on two cores."""

REQUESTS_PER_ROW = 8
SELECTIONS = {"without torch": ("-m", "not torch"), "with torch": ()}


def run(folder: pathlib.Path, *args: str) -> float:
    """Return the seconds of one pytest process."""
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "pytest", "suites", "-q", f"--gpucluster-report-dir={folder}", *args],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.monotonic() - began


def main() -> None:
    """Print seconds, requests and ratios."""
    with tempfile.TemporaryDirectory(prefix="gpucluster-bench-") as scratch:
        base = run(pathlib.Path(scratch), "--collect-only")
    print(f"reference: collecting the suite: {base:.2f} s")
    for name, chosen in SELECTIONS.items():
        with tempfile.TemporaryDirectory(prefix="gpucluster-bench-") as scratch:
            seconds = run(pathlib.Path(scratch), *chosen)
            report = json.loads(
                next(pathlib.Path(scratch).glob("2*/report.json")).read_text(encoding="utf-8")
            )
        rows, requests = len(report["requirements"]), report["requests"]["total"]
        print(
            f"{name}: {seconds:.1f} s for {rows} rows (limit {LIMITS[name]:.0f} s), {seconds / base:.1f} x the "
            f"reference; {requests} API requests, {requests / rows:.1f} a row (limit {REQUESTS_PER_ROW})"
        )


if __name__ == "__main__":
    main()
