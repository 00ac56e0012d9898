"""What the logs of a job say about its collectives: a reader of NCCL, RCCL and nccl-tests, its facts and a verdict.

reader = Reader()
for chunk in chunks:
    reader.feed(chunk)
reader.end()
found = draw(reader.seen, Given(ranks=16, nodes=2))
verdict.decide(found).verdict
"""

from pytest_gpucluster.measure.nccl import (
    advice,
    cases,
    facts,
    failing,
    faults,
    line_patterns,
    networks,
    verdict,
)
from pytest_gpucluster.measure.nccl.fact_extraction import draw
from pytest_gpucluster.measure.nccl.facts import Facts, Given
from pytest_gpucluster.measure.nccl.observations import Seen
from pytest_gpucluster.measure.nccl.reader import Reader, read

__all__ = [
    "Facts",
    "Given",
    "Reader",
    "Seen",
    "advice",
    "cases",
    "draw",
    "facts",
    "failing",
    "faults",
    "line_patterns",
    "networks",
    "read",
    "verdict",
]
