"""What the matrix of evidence mutants costs: every mutant over every recorded scenario, against every row.

Reference in the same run: reading the evidence and deciding every row once.
"""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from pytest_gpucluster import mutants
from tests.defects import matrix

LIMIT = 20.0
"""Seconds for all mutants on two cores, one of them used."""


def main() -> None:
    """Print seconds and the ratio."""
    began = time.perf_counter()
    rows = len(matrix.baseline())
    base = time.perf_counter() - began
    began = time.perf_counter()
    flipped = sum(len(matrix.flips_of(name)) for name in mutants.MUTANTS)
    seconds = time.perf_counter() - began
    print(
        f"reference: {rows} rows decided once from {len(list(matrix.RECORDED.glob('*.jsonl')))} files: {base:.2f} s"
    )
    print(
        f"{len(mutants.MUTANTS)} mutants over {rows} rows, {flipped} cells turned: {seconds:.2f} s "
        f"(limit {LIMIT:.0f} s), {seconds / base:.1f} x the reference"
    )


if __name__ == "__main__":
    main()
