"""What is told of one object or one fact and cannot be so takes the pass: it is edited, mixed, or of somebody else."""

import json

import pytest

from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.plain.copies import clone
from pytest_gpucluster.report import decisions
from pytest_gpucluster.report.suites import load_suites
from tests import recordings


def verdict(row, scenario, change):
    """Decide a row on the recorded evidence of a scenario after a change of its lines."""
    path = recordings.FOLDER / "embedded" / f"{scenario}.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    made = change(clone(lines))
    evidence = ingest.of_lines([json.dumps(line) for line in made], "x.jsonl")
    return str(decisions.decide(load_suites().get(row), evidence).verdict)


def pods(change, when=bool):
    """Return a change of every line of a pod for which `when` holds."""

    def act(lines):
        for line in lines:
            if line.get("kind") == "Pod" and "object" in line and when(line["object"]):
                change(line["object"])
        return lines

    return act


def runs(pod):
    """Report whether a pod runs or has run."""
    return pod.get("status", {}).get("phase") in ("Running", "Succeeded")


def facts(change):
    """Return a change of every fact that a payload printed."""

    def act(lines):
        for line in lines:
            head, mark, text = str(line.get("line", "")).partition("GPUCONF1 ")
            if mark:
                told = json.loads(text)
                change(told)
                line["line"] = f"{head}{mark}{json.dumps(told)}"
        return lines

    return act


def jobs(minimum):
    """Return the change of what every Volcano Job states as its minimum."""

    def act(lines):
        for line in lines:
            if line.get("kind") == "Job.batch.volcano.sh" and "object" in line:
                line["object"]["spec"]["minAvailable"] = minimum
        return lines

    return act


def sums(value):
    """Return the change of every sum to one value, of which the payload says that it is right."""
    return facts(lambda told: told.update(expected=value, got=value) if "expected" in told else None)


AS_IT_WAS = [("GANG-001", "healthy"), ("GANG-002", "scarce"), ("RDZV-001", "world")]
CONTRADICTED = {
    "another node": ("GANG-001", "healthy", pods(lambda pod: pod["spec"].update(nodeName="gpu-77"), runs)),
    "another scheduler later": (
        "GANG-001", "healthy", pods(lambda pod: pod["spec"].update(schedulerName="other"), runs)
    ),
    "another name": ("GANG-001", "healthy", pods(lambda pod: pod["metadata"].update(name="other"), runs)),
    "a webhook sends pods elsewhere": (
        "GANG-001", "healthy", pods(lambda pod: pod["spec"].update(schedulerName="yunikorn"))
    ),
    "held by another scheduler": (
        "GANG-002", "scarce", pods(lambda pod: pod["spec"].update(schedulerName="yunikorn"))
    ),
    "a minimum of one": ("GANG-001", "healthy", jobs(1)),
    "a minimum of a thousand": ("GANG-002", "scarce", jobs(1000)),
    "facts of another pod": ("RDZV-001", "world", facts(lambda told: told.update(pod="other"))),
    "an infinite sum": ("RDZV-001", "world", sums(float("inf"))),
    "the sum of another world": ("RDZV-001", "world", sums(6.0)),
}  # fmt: skip


@pytest.mark.parametrize(("row", "scenario"), AS_IT_WAS)
def test_untouched_they_pass(row, scenario):
    """What the contradictions below are planted into is good."""
    assert verdict(row, scenario, lambda lines: lines) == "pass"


@pytest.mark.parametrize(("row", "scenario", "change"), CONTRADICTED.values(), ids=CONTRADICTED)
def test_what_cannot_be_is_no_good_news(row, scenario, change):
    """Neither an object that changed what none can, nor one of another scheduler, nor a wrong sum called right."""
    assert verdict(row, scenario, change) != "pass"
