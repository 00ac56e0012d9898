"""A member that failed, was evicted or was started again is never part of a pass; what only looks like it is."""

import dataclasses
import functools

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.judge import needs, needs_of_judges
from pytest_gpucluster.report import decisions
from tests.defects import matrix

# One worker reads the recordings, once.
pytestmark = pytest.mark.xdist_group("recordings")


@functools.cache
def row(name):
    """Return the declaration of a row."""
    return next(row for row in matrix.rows() if row.id == name)


def decided(name, change):
    """Return the finding of a row on its recorded evidence, in which the worker pods were changed.

    The change is told the object, and whether the pod runs and nobody asked for its end yet.
    """

    def act(obj):
        phase = obj.get("status", {}).get("phase")
        change(obj, phase in ("Running", "Succeeded") and not obj["metadata"].get("deletionTimestamp"))

    evidence = matrix.evidence(row(name).scenario.name)
    changed = mutants.each(
        evidence, lambda ln: ln.kind == "Pod" and "worker" in ln.name and ln.type != "DELETED", act
    )
    return decisions.decide(row(name), changed)


def status(obj, **more):
    """Return the status of the container that the template has, with more."""
    main = obj["spec"]["containers"][0]["name"]
    return {"name": main, "restartCount": 0, "state": {"running": {}}, **more}


def condition(kind, truth, reason):
    """Return the change that gives a running pod a condition."""

    def change(obj, runs):
        if runs:
            obj["status"]["conditions"] = [{"type": kind, "status": truth, "reason": reason}]

    return change


def told(**more):
    """Return the change that gives a running pod a container status."""

    def change(obj, runs):
        if runs:
            obj["status"]["containerStatuses"] = [status(obj, **more)]

    return change


def failed(obj, runs):
    """Let a running pod be Failed."""
    if runs:
        obj["status"].update(phase="Failed", reason="Evicted")


def unknown(obj, runs):
    """Let nobody know whether a pod runs: its kubelet went silent."""
    if runs:
        obj["status"]["phase"] = "Unknown"


def init_failed(obj, runs):
    """Let an init container of the template have failed before it was tried again."""
    if runs:
        init = [{"name": "first", "image": "i"}]
        obj["spec"]["initContainers"] = init
        obj["status"]["initContainerStatuses"] = [
            {"name": obj["spec"]["containers"][0]["name"], "restartCount": 2}
        ]


BEFELL = {
    "failed": (failed, "Failed (Evicted)"),
    "unknown": (unknown, "has phase Unknown"),
    "ended-with-1": (
        told(state={"terminated": {"exitCode": 1, "startedAt": "x"}}),
        "ended with exit code 1 (main)",
    ),
    "killed": (told(state={"terminated": {"exitCode": 137, "startedAt": "x"}}), "ended with exit code 137"),
    "started-again": (told(restartCount=2), "was started again 2 times (main)"),
    "init-again": (init_failed, "was started again 2 times"),
    "evicted": (
        condition("DisruptionTarget", "True", "EvictionByEvictionAPI"),
        "was evicted (EvictionByEvictionAPI)",
    ),
    "evicted-by-volcano": (condition("Ready", "False", "Evict"), "was evicted (by Volcano's scheduler)"),
}


@pytest.mark.parametrize("case", BEFELL)
@pytest.mark.parametrize("name", ["PLG-001", "RDZV-005"])
def test_what_befell_a_member_is_named_and_no_pass(name, case):
    """Whatever the payload said before: who broke off is no ground to stand on."""
    change, text = BEFELL[case]
    finding = decided(name, change)
    assert finding.verdict == "inconclusive"
    assert text in finding.observed
    assert not finding.violation
    assert finding.causes[0].fix


def injected(obj, runs):
    """Let a mesh put a container beside ours that was started again, and one that restarts as it likes."""
    obj["spec"]["containers"].append({"name": "proxy", "image": "mesh"})
    obj["spec"].setdefault("initContainers", []).append({"name": "beside", "restartPolicy": "Always"})
    if runs:
        obj["status"].setdefault("containerStatuses", [status(obj)]).append(
            {"name": "proxy", "restartCount": 3}
        )
        ended = {"terminated": {"exitCode": 137, "startedAt": "x"}}
        obj["status"].setdefault("initContainerStatuses", []).append(
            {"name": "beside", "restartCount": 1, "state": ended}
        )


def killed_when_asked(obj, runs):
    """Let what was asked to end be killed for it, and its pod be Failed."""
    if not runs and obj["metadata"].get("deletionTimestamp"):
        ended = {"terminated": {"exitCode": 137, "startedAt": "x"}}
        obj["status"].update(phase="Failed", containerStatuses=[status(obj, state=ended)])


def lost_unseen(obj, runs):
    """Let a kubelet not find a container that it never started, as when a pod without an image is deleted."""
    if runs:
        ended = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None}}
        obj["status"]["initContainerStatuses"] = [status(obj, state=ended)]


@pytest.mark.parametrize(
    "change",
    [
        injected, killed_when_asked, lost_unseen,
        pytest.param(condition("DisruptionTarget", "False", "x"), id="not-evicted"),
        pytest.param(condition("Ready", "False", "PodCompleted"), id="completed"), pytest.param(told(), id="runs"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["PLG-001", "RDZV-005"])
def test_what_only_looks_like_it_is_nothing(name, change):
    """Containers of others, ends that were asked for, words on what never ran."""
    finding = decided(name, change)
    assert finding.verdict == "pass", finding.observed


@pytest.mark.parametrize("name", ["RDZV-004", "RDZV-009", "LIFE-004", "FAB-011"])
def test_pods_that_we_make_ourselves_play_what_their_gang_plays(name):
    """A gang of Kubernetes' own is a PodGroup and pods, each with a role: those that are meant to fail may."""
    evidence = matrix.evidence(row(name).scenario.name)
    roles = dict(evidence.given["roles"])
    for gang in gangs.gangs(evidence):
        played = next(
            role for role, members in roles.items() if any(each["uid"] == gang.uid for each in members)
        )
        pods = [{"kind": "Pod", "name": pod.name, "uid": pod.uid} for pod in gang.pods]
        roles[f"{played}-member"] = [*roles.get(f"{played}-member", []), *pods]
    given = {**evidence.given, "roles": roles}
    changed = Evidence(evidence.lines, header={**evidence.header, "given": given}, spans=evidence.spans)
    assert needs.broken_off(changed, changed.given, needs_of_judges.of(row(name).judge)) is None


def test_a_member_that_had_succeeded_is_only_cleared_away():
    """A node is drained after all is done."""

    def drained(obj, runs):
        if runs and obj["status"]["phase"] == "Succeeded":
            condition("DisruptionTarget", "True", "EvictionByEvictionAPI")(obj, runs)

    assert decided("RDZV-005", drained).verdict == "pass"


@pytest.mark.parametrize(
    ("event", "more", "text"),
    [("failed", {"error": "e"}, "says that it failed"), ("stalled", {}, "says that it stalled"),
     ("done", {"code": 1}, "says that it ended with 1"), ("done", {"code": 0}, "")],
)  # fmt: skip
def test_a_payload_that_says_so_itself_is_believed(event, more, text):
    """The pod may succeed all the same: a shell in between forgets the exit code."""
    evidence = matrix.evidence("smoke-loop")
    line = next(
        ln for ln in reversed(evidence.lines) if ln.type == "LOG" and "GPUCONF1" in str(ln.data.get("line"))
    )
    said = 'GPUCONF1 {"event": "%s"%s}' % (event, "".join(f', "{k}": "{v}"' for k, v in more.items()))  # noqa: UP031
    more_lines = (*evidence.lines, dataclasses.replace(line, data={**line.data, "line": said}))
    finding = decisions.decide(row("MFU-004"), mutants.with_lines(evidence, more_lines))
    if text:
        assert finding.verdict == "inconclusive"
        assert text in finding.observed
    else:
        assert finding.verdict == "pass", finding.observed
