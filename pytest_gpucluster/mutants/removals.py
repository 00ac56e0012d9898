"""Departures in what is missing: something that was seen is not there, and all else is as it was."""

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.mutants import base


def start_unseen(evidence: Evidence) -> Evidence:
    """Let nobody have seen one member of a gang run, of which the end was seen."""
    for gang in gangs.gangs(evidence):
        running = sorted((pod.running, pod.uid) for pod in gang.pods if pod.running is not None)
        if gang.minimum > 1 and len(running) >= gang.minimum:
            uid = running[-1][1]

            def shows(line: Line, uid: str = uid) -> bool:
                return line.uid == uid and fields.text(line.object, "status", "phase") == "Running"

            return base.without(evidence, shows)
    return evidence


MUTANTS: base.Table = {
    "gang.start-unseen": base.Mutant(
        "nobody saw one member of a gang run",
        base.only("healthy", start_unseen),
        {"GANG-007": "inconclusive"},
    ),
    "plugins.arguments-untold": base.Mutant(
        "no process reported its arguments", base.drop("argv"), {"PLG-004": "inconclusive"}
    ),
}
"""Mutants that take something away."""
