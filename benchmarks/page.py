"""What the page of a run costs: every row of the catalogue decided, on 1,000 nodes with 8 GPUs each.

Reference in the same run: the page of a small run, and the same report as JSON.
"""

import json
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from pytest_gpucluster.report import html, record
from tests.report import large, sample

NODES = 1000
SECONDS, MEGABYTES = 1.0, 5.0
"""Longest time, of the CPU, and largest size that the page may have."""
TIMES = 5


def main() -> None:
    """Print seconds and size."""
    with tempfile.TemporaryDirectory() as folder:
        sample.make_run(pathlib.Path(folder) / "run")
        small = record.fold(pathlib.Path(folder) / "run" / record.JOURNAL)
    report = large.grown(small, NODES)
    html.render(small)  # templates are compiled once per process
    reference = _median(lambda: html.render(small))
    as_json = _median(lambda: json.dumps(report))
    seconds, page = _median(lambda: html.render(report)), html.render(report)
    size = len(page.encode()) / 1e6
    print(
        f"reference: page of {len(small['requirements'])} rows {reference:.3f} s; large report as JSON {as_json:.3f} s"
    )
    print(
        f"page of {len(report['requirements'])} rows, {NODES} nodes, {NODES * large.GPUS} GPUs: {seconds:.2f} s of at "
        f"most {SECONDS:g}, {size:.2f} MB of at most {MEGABYTES:g}"
    )
    if seconds > SECONDS or size > MEGABYTES:
        sys.exit("too much")


def _median(work: Callable[[], object]) -> float:
    found = []
    for _ in range(TIMES):
        began = time.process_time()  # it only computes: what else runs on the machine is not counted
        work()
        found.append(time.process_time() - began)
    return statistics.median(found)


if __name__ == "__main__":
    main()
