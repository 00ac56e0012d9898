"""HLT-004 on what containers told: by device files, by the driver, with slices and replicas of GPUs."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.evidence import Evidence, read
from pytest_gpucluster.judge.health import device_isolation as judge
from pytest_gpucluster.judge.numa import alignment
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants.base import clone
from pytest_gpucluster.requirement import Verdict
from suites.scenarios import access
from tests import amount
from tests.defects import matrix

A, B, C = (f"{digit * 8}-{digit * 4}-4{digit * 3}-8{digit * 3}-{digit * 12}" for digit in "123")


@pytest.fixture(scope="module")
def recorded() -> Evidence:
    """A run on the embedded cluster: one container asked for nothing, two for one each."""
    return read(matrix.RECORDED / "access.jsonl")


def told(evidence, **containers):
    """Let containers tell other facts; None: it tells nothing."""

    def act(line, said):
        name = line.data.get("container")
        if name not in containers:
            return said
        return None if containers[name] is None else {**said, **containers[name]}

    return base.words(evidence, act)


def lists(*uuids, result=0, files=(), ids=None):
    """Return what a container tells where a driver answers."""
    return {
        "told": [f"GPU-{uuid}" for uuid in uuids] if ids is None else list(ids),
        "files": [{"path": path, "opens": True} for path in files],
        "driver": {
            "library": "libcuda.so.1",
            "result": result,
            "count": len(uuids),
            "devices": [{"uuid": u} for u in uuids],
        },
    }


def judged(evidence):
    """Return the finding."""
    return judge.sees_its_own(evidence, evidence.given)


NOBODY = {"told": [], "files": [], "driver": {"library": "libcuda.so.1", "result": 100, "devices": []}}
REAL = {"none": NOBODY, "one": lists(A, files=["/dev/nvidia0"]), "other": lists(B, files=["/dev/nvidia1"])}


def test_real_gpus_each_in_its_container(recorded):
    """Driver and device files agree with what was granted; a driver without GPUs counts as seeing none."""
    finding = judged(told(recorded, **REAL))
    assert finding.verdict is Verdict.PASS
    assert f"one on gpu-0 was granted 1: its driver lists {A}" in finding.observed
    (number,) = finding.numbers
    assert (number.value, number.bound) == (0, 0)


def alone(evidence):
    """Return the same on a node that offers one GPU: no second container with a GPU."""
    lines = []
    for line in base.words(
        evidence, lambda line, w: None if line.data.get("container") == "other" else w
    ).lines:
        made = clone(dict(line.object))
        if line.kind == "Pod":
            containers = made["spec"]["containers"]
            made["spec"]["containers"] = [each for each in containers if each["name"] != "other"]
        lines.append(dataclasses.replace(line, object=made))
    return base.with_lines(evidence, lines)


def test_a_node_with_one_gpu_is_tried_with_one_container(recorded):
    """Who asked for none sees none, who asked for one sees one; that no pair was there is said."""
    finding = judged(alone(told(recorded, **REAL)))
    assert finding.verdict is Verdict.PASS
    assert "no two containers with GPUs were tried on one node" in finding.observed
    leak = judged(alone(told(recorded, **{**REAL, "none": lists(A, ids=(), files=["/dev/nvidia0"])})))
    assert leak.verdict is Verdict.FAIL
    assert "no two containers" not in judged(told(recorded, **REAL)).observed


def specified(evidence, change):
    """Return the evidence with the specification of its pods changed."""
    lines = []
    for line in evidence.lines:
        made = clone(dict(line.object))
        if line.kind == "Pod":
            change(made["spec"])
        lines.append(dataclasses.replace(line, object=made))
    return base.with_lines(evidence, lines)


def privileged(spec):
    """Let the container be privileged."""
    for each in spec["containers"]:
        each["securityContext"] = {"privileged": True}


def mounting(source, target):
    """Return a change that mounts a volume."""

    def change(spec):
        spec["volumes"] = [*spec.get("volumes", ()), {"name": "more", **source}]
        for each in spec["containers"]:
            each["volumeMounts"] = [*each.get("volumeMounts", ()), {"name": "more", "mountPath": target}]

    return change


@pytest.mark.parametrize(
    ("change", "itself"),
    [
        (privileged, True),
        (mounting({"hostPath": {"path": "/dev"}}, "/dev"), True),
        (mounting({"hostPath": {"path": "/dev/nvidia0"}}, "/dev/nvidia0"), True),
        (mounting({"hostPath": {"path": "/opt"}}, "/opt"), False),
        (mounting({"hostPath": {"path": "/devices"}}, "/devices"), False),
        (mounting({"emptyDir": {"medium": "Memory"}}, "/dev/shm"), False),
        (lambda _: None, False),
    ],
    ids=["privileged", "dev", "one-file", "opt", "devices", "memory", "nothing"],
)
def test_a_pod_that_opens_devices_itself_is_named_as_the_cause(recorded, change, itself):
    """The runtime is a candidate only if the pod's own specification does not explain it."""
    leak = told(recorded, **{**REAL, "none": lists(A, B, ids=(), files=["/dev/nvidia0", "/dev/nvidia1"])})
    finding = judged(specified(leak, change))
    assert finding.verdict is Verdict.FAIL
    assert (len(finding.causes) == 1) is itself
    assert any("hostPath volume of /dev" in cause.text for cause in finding.causes)


@pytest.mark.parametrize("offers", range(1, 9))
def test_what_is_asked_of_a_node_fits_it(offers):
    """All containers hold their GPUs at the same time, and there is always one with and one without."""
    asked = access.asked_on(offers)
    assert {0, 1} <= set(asked.values())
    assert sum(asked.values()) == min(offers, 2)


@pytest.mark.parametrize("tried", [judge.node_tried, alignment.every_node_tried])
def test_nodes_that_offer_too_little_are_not_said_to_be_in_use(recorded, tried):
    """Nodes are chosen by what they have to offer, so whether it is in use was not looked at."""
    presupposed = tried(recorded, {**recorded.given, "tried": []})
    assert presupposed.held is False
    (cause,) = presupposed.causes
    assert "(allocatable), whether they are in use or not" in cause.text


@pytest.mark.parametrize(
    ("changes", "text", "cause"),
    [
        (
            {"none": lists(A, B, ids=())},
            f"none asked for no GPU and can reach 2: {A}, {B}",
            "NVIDIA_VISIBLE_DEVICES=all",
        ),
        (
            {"none": {**NOBODY, "told": ["GPU-x"]}},
            "none asked for no GPU, but its environment names GPU-x",
            "NVIDIA_VISIBLE_DEVICES=all",
        ),
        (
            {"one": lists(A, C, ids=[f"GPU-{A}"], files=["/dev/nvidia0"])},
            f"one was granted 1 and can reach 2: {A}, {C}",
            "NVIDIA_VISIBLE_DEVICES=all",
        ),
        (
            {"one": lists(A, files=["/dev/nvidia0", "/dev/nvidia7"])},
            "one was granted 1 and can reach 2: /dev/nvidia0, /dev/nvidia7",
            "hostPath",
        ),
        (
            {"one": lists(C, ids=[f"GPU-{A}"])},
            f"one was told GPU-{A} and its driver lists {C}",
            "runtime class",
        ),
        (
            {"one": lists(ids=[f"GPU-{A}"], result=100)},
            "one was granted 1 and can reach 0: none",
            "runtime class",
        ),
        ({"other": lists(A, files=["/dev/nvidia0"])}, f"can both reach {A}", "hostPath"),
        ({"one": NOBODY}, "one was granted 1 and can reach 0: none", "kubelet_internal_checkpoint"),
        (
            {"one": {**NOBODY, "files": [{"path": "/dev/nvidia0", "opens": False}]}},
            "one was granted 1 and can reach 0: none (/dev/nvidia0 does not open)",
            "a GPU is lost",
        ),
        (
            {
                "one": {
                    **lists(A, files=["/dev/nvidia0"]),
                    "driver": {"library": "libcuda.so.1", "result": 803},
                }
            },
            "one was granted 1, and its driver returned 803",
            "kernel module",
        ),
    ],
)
def test_what_a_container_sees_too_much_or_lacks(recorded, changes, text, cause):
    """Each is a violation that says who, what, and the documented fix."""
    finding = judged(told(recorded, **{**REAL, **changes}))
    assert finding.verdict is Verdict.FAIL
    assert finding.violation
    assert text in finding.observed
    assert any(cause in one.text or cause in one.fix for one in finding.causes)
    assert all("on gpu-0" in where for where in finding.where)


def test_a_file_that_does_not_open_is_out_of_reach(recorded):
    """A node's files may be there and closed by its device rules."""
    closed = {**NOBODY, "files": [{"path": "/dev/nvidia0", "opens": False, "why": "Operation not permitted"}]}
    assert judged(told(recorded, **{**REAL, "none": closed})).verdict is Verdict.PASS


def test_slices_share_a_device_file(recorded):
    """Two slices of one GPU have one file, and a driver lists one slice at a time: neither is a leak."""
    slices = {
        "none": NOBODY,
        "one": lists(A, ids=[f"MIG-{A}"], files=["/dev/nvidia0"]),
        "other": lists(B, ids=[f"MIG-{B}"], files=["/dev/nvidia0"]),
    }
    assert judged(told(recorded, **slices)).verdict is Verdict.PASS
    foreign = {**slices, "other": lists(A, ids=[f"MIG-{B}"], files=["/dev/nvidia0"])}
    assert judged(told(recorded, **foreign)).verdict is Verdict.FAIL


def test_replicas_are_shared_on_purpose(recorded):
    """Where a plugin offers each GPU several times, two containers may hold the same one."""
    both = {
        "none": NOBODY,
        "one": lists(A, ids=[f"GPU-{A}::0"], files=["/dev/nvidia0"]),
        "other": lists(A, ids=[f"GPU-{A}::1"], files=["/dev/nvidia0"]),
    }
    assert judged(told(recorded, **both)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"other": None}, "container other on gpu-0 did not report what it can reach"),
        (
            {"one": {**lists(A), "driver": {"library": "?", "why": "the driver did not answer within 90 s"}}},
            "the driver did not answer within 90 s",
        ),
    ],
)
def test_what_was_not_seen_is_not_judged(recorded, changes, text):
    """Silence, and a driver that does not answer, decide nothing."""
    finding = judged(told(recorded, **{**REAL, **changes}))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert text in finding.observed


def test_nobody_told_anything(recorded):
    """No container, no word."""
    silent = told(recorded, none=None, one=None, other=None)
    assert judged(silent).verdict is Verdict.INCONCLUSIVE


KEYS = st.sampled_from(["path", "opens", "uuid", "result"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["path", "opens", "uuid", "result"]), inner)
    ),
    max_leaves=8,
)


@amount.examples(60)
@given(st.dictionaries(st.sampled_from(["told", "files", "driver", "count"]), JSON))
def test_whatever_a_container_tells_is_read(facts):
    """A payload that is not ours, or half of one, raises nothing and is no pass by accident."""
    evidence = told(
        read(matrix.RECORDED / "access.jsonl"),
        none={"files": [{"path": "/dev/nvidia0", "opens": True}]},
        one=facts,
    )
    assert judged(evidence).verdict is Verdict.FAIL
