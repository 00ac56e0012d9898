"""What admission puts into every pod of ours (an agent, a proxy, their set-up) changes the verdict of no row."""

import copy

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.report import decisions
from suites.scenarios import numa
from tests.defects import matrix

pytestmark = pytest.mark.xdist_group("recordings")

AGENT = {
    "name": "agent",
    "image": f"example.com/agent@sha256:{'0' * 64}",  # INV-007 speaks of these containers too
    "resources": {"requests": {"cpu": "100m"}},
}
SETUP = {**AGENT, "name": "agent-setup", "resources": {}}


def _status(container, theirs):
    """Return the status of an injected container: it starts with ours, was restarted, and ends by a signal."""
    state = {"terminated": {"exitCode": 143}} if "terminated" in theirs else theirs
    before = {"terminated": {"exitCode": 2, "reason": "Error"}}
    return {"name": container["name"], "state": state, "lastState": before, "restartCount": 1, "ready": True}


def injected(evidence: Evidence, part: str, *added: dict) -> Evidence:
    """Return an evidence in which every pod has further containers."""
    statuses = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}[part]

    def add(pod):
        pod["spec"][part] = [*fields.items(pod, "spec", part), *copy.deepcopy(added)]
        status = pod.get("status") or {}
        main = next(iter(fields.items(status, "containerStatuses")), None)
        if main is not None:
            more = [_status(one, fields.sub(main, "state")) for one in added]
            status[statuses] = [*fields.items(status, statuses), *more]

    def ours(line):
        return line.kind == "Pod" and bool(fields.items(line.object, "spec", "containers"))

    return mutants.each(evidence, ours, add)


VARIANTS = {
    "an agent beside": ("containers", AGENT),
    "an agent before": ("initContainers", SETUP, {**AGENT, "restartPolicy": "Always"}),
}


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_what_admission_adds_changes_no_verdict(variant):
    """A row speaks of what our pods do: nobody asked the agent what it sees, and how it ends is its own."""
    part, *added = VARIANTS[variant]
    changed = {}
    for scenario in sorted({row.scenario.name for row in matrix.rows()}):
        before = matrix.evidence(scenario)
        after = injected(before, part, *added)
        for row in matrix.rows():
            if row.scenario.name == scenario:
                finding = decisions.decide(row, after)
                if str(finding.verdict) != matrix.baseline()[row.id]:
                    changed[row.id] = f"{finding.verdict}: {finding.observed[:160]}"
    assert changed == {}


def test_which_containers_are_a_pods_own():
    """The marked ones where one is marked; else all but the proxies of a mesh."""
    marked = {"name": "main", "env": [{"name": containers.MARK, "value": "main"}]}
    proxy = {"name": "istio-proxy", "image": "docker.io/istio/proxyv2:1.27"}
    assert containers.own({"spec": {"containers": [AGENT, marked]}}) == [marked]
    assert containers.own({"spec": {"containers": [AGENT, proxy]}}) == [AGENT]
    pod = {"spec": {"initContainers": [SETUP], "containers": [marked]}}
    assert containers.own(pod, "initContainers") == []
    assert numa.containers_of({"spec": {**pod["spec"], "containers": [AGENT, marked]}}) == 1
