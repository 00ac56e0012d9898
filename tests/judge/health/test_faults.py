"""HLT-002 on what drivers, the kernel and the cluster tell."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.evidence.hardware import gpu_health
from pytest_gpucluster.judge.health import faults
from pytest_gpucluster.requirement import Verdict
from tests import amount, recordings
from tests.judge.inventory import cluster

WELL = {"uuid": "GPU-a", "bus": "0000:01:00.0", "name": "NVIDIA H200", "ecc": 1, "uncorrected": 0, "pending": 0,
        "failed": 0, "recovery": 0, "lost": False}  # fmt: skip
OTHER = {**WELL, "uuid": "GPU-b", "bus": "0000:02:00.0"}
UNREAD = {"readable": False, "why": "Operation not permitted", "from_boot": False}
FATAL = "<3>[  812.1] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
POD = {"kind": "Pod", "metadata": {"name": "p", "uid": "p"}, "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
       "status": {"phase": "Succeeded"}}  # fmt: skip


def line(event, **told):
    """Return a line of the payload."""
    text = f"GPUCONF1 {json.dumps({'event': event, 'pod': 'p', 'node': 'n1', **told})}"
    return {"t": 1.0, "type": "LOG", "pod": "p", "uid": "p", "container": "c", "line": text}


def said(*gpus, log=(), how="nvml", problems=(), **more):
    """Return what a pod told of GPUs and of the kernel's log."""
    told = {
        "readable": True,
        "why": "",
        "from_boot": True,
        "lines": list(log),
        "count": len(log),
        "gpus": len(gpus),
        **more,
    }
    return [
        *(line(gpu_health.GPU, how=how, index=n, count=len(gpus), gpu=gpu) for n, gpu in enumerate(gpus)),
        line(gpu_health.LOG, problems=list(problems), **told),
    ]


def judged(lines, *, node=None, resource=cluster.GPU, **health):
    """Return the finding on what the pod told."""
    found = node or cluster.node("n1", 2, labels={"nvidia.com/gpu.count": "2"}, resource=resource)
    objects = [{"t": 0.0, "type": "ADDED", "kind": one["kind"], "object": one} for one in (found, POD)]
    roles = {"subject": [{"kind": "Pod", "name": "p", "uid": "p"}]}
    told = {**cluster.TOLD, "gpu_resource": resource, "roles": roles, "tried": ["n1"],
            "health": {"passed_over": [], **health}}  # fmt: skip
    return faults.no_fault(recordings.evidence_of([*objects, *lines], header={"given": told}))


def test_gpus_that_are_well():
    """Who tells fatal errors stands in the finding."""
    found = judged(said(WELL, OTHER))
    assert found.verdict is Verdict.PASS
    assert "the kernel's log" in found.observed


@pytest.mark.parametrize(
    ("change", "verdict", "text"),
    [
        ({"pending": 1}, "fail", "remap of GPU-a is pending"),
        ({"failed": 1}, "fail", "remap of GPU-a failed"),
        ({"uncorrected": 3}, "fail", "3 uncorrected memory errors"),
        ({"recovery": 2}, "fail", "recovery of GPU-a (2)"),
        ({"recovery": "Reset"}, "fail", "recovery of GPU-a (Reset)"),
        ({"lost": True, "uuid": "", "bus": ""}, "fail", "a GPU that does not answer"),
        ({"ecc": 0}, "inconclusive", "ECC switched off"),
        ({"ecc": 0, "pending": 1}, "fail", "pending"),
        ({"uncorrected": None}, "inconclusive", "does not tell uncorrected errors"),
        ({"pending": -1}, "inconclusive", "does not tell pending remaps"),
        ({"failed": True}, "inconclusive", "does not tell failed remaps"),
        ({"uncorrected": 0.5}, "inconclusive", "does not tell"),
        ({"lost": None}, "fail", "does not answer"),
        ({"uuid": "GPU-b"}, "inconclusive", "told twice"),
        ({"ecc": None}, "pass", ""),
    ],
)
def test_what_a_driver_tells(change, verdict, text):
    """Null is never 0, and a number that cannot be a count is none."""
    found = judged(said({**WELL, **change}, OTHER))
    assert (str(found.verdict), text in found.observed) == (verdict, True), found.observed


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        ([FATAL], "fail"),
        (["[812.1] NVRM: Xid (PCI:0000:3b:00): 48, pid=7, DBE"], "fail"),
        (["NVRM: Xid (PCI:0000:3b:00): 79, pid=7"], "fail"),
        # A slice of a GPU, a kernel that names the task which wrote the line, a driver that leaves out the bus's kind.
        (["<3>[812.1] NVRM: Xid (PCI:0000:07:00 GPU-I:05): 94, pid=7, Contained: CE User Channel"], "fail"),
        (["<3>[  812.1][ T1234] NVRM: Xid (PCI:0000:3b:00): 79, pid=7"], "fail"),
        (["<3>[  812.1][    C3] NVRM: Xid (PCI:0000:3b:00): 31, pid=7, MMU Fault"], "pass"),
        (["<3>[812.1] NVRM: Xid (0000:3b:00): 79, pid=7"], "fail"),
        (["<3>[812.1] NVRM: Xid (PCI:0000:3b:00): "], "inconclusive"),
        (["<3>[812.1] NVRM: Xid (PCI:0000:3b"], "inconclusive"),
        (["<14>[9.1] amdgpu 0000:05:00.0: amdgpu: 2 uncorrectable hardware errors detected"], "pass"),
        (["<3>[9.1][ T12] amdgpu 0000:05:00.0: amdgpu: GPU reset begin!"], "fail"),
        (["<3>[812.1] NVRM: Xid (PCI:0000:3b:00): 31, pid=7, MMU Fault"], "pass"),
        (["<3>[812.1] NVRM: Xid (PCI:0000:3b:00): 777, pid=7"], "inconclusive"),
        # What other programs write of Xids is no error of this driver.
        (["<12>[812.1] monitor: NVRM: Xid (PCI:0000:3b:00): 79 was seen on another node"], "pass"),
        (["<14>[812.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=7"], "pass"),
        (["<6>[812.1] postgres: Xid 79 wraparound", "<6>[1.0] xen: Xid (PCI:0000:3b:00): 79"], "pass"),
        (["<6>[812.1] NVRM: Xid filter is on (79)"], "pass"),
        (
            ["<3>[9.1] amdgpu 0000:05:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block"],
            "fail",
        ),
    ],
)
def test_lines_of_the_kernels_log(log, verdict):
    """The line must be the driver's own, and of the kernel."""
    found = judged(said(WELL, OTHER, log=log))
    assert str(found.verdict) == verdict, found.observed


@pytest.mark.parametrize("from_boot", [False, None, 1, "yes"])
def test_a_log_that_lost_its_oldest_lines_tells_of_no_time_before(from_boot):
    """A fatal error in it counts all the same, and others may tell of the time since the boot."""
    silent = [{**gpu, "recovery": None} for gpu in (WELL, OTHER)]
    assert judged(said(*silent)).verdict is Verdict.PASS
    found = judged(said(*silent, from_boot=from_boot))
    assert (found.verdict, found.causes) == (Verdict.INCONCLUSIVE, (faults.OVERWRITTEN,))
    assert judged(said(*silent, from_boot=from_boot, log=[FATAL])).verdict is Verdict.FAIL
    told = judged(said(WELL, OTHER, from_boot=from_boot))
    assert told.verdict is Verdict.PASS
    assert "the kernel's log" not in told.observed


@pytest.mark.parametrize("number", [63, 154, 777])
def test_an_error_that_no_list_has_is_no_fault_of_a_gpu(number):
    """The one thing that is known of it is how to look it up."""
    found = judged(said(WELL, OTHER, log=[f"<4>[1.0] NVRM: Xid (PCI:0000:3b:00): {number}, pid=7"]))
    assert (found.verdict, found.causes) == (Verdict.INCONCLUSIVE, (faults.UNLISTED,))


@pytest.mark.parametrize(
    ("problems", "causes"),
    [
        (["nvml: No module named 'pynvml'", "nvidia-smi: neither the package nor the program is in the image"],
         (faults.BLIND,)),
        (["nvml: NVML Shared Library Not Found", "nvidia-smi: nvidia-smi ended with 12: couldn't find libnvidia-ml.so"],
         (faults.BLIND,)),
        (["nvml: GPU is lost", "nvidia-smi: nvidia-smi ended with 15: GPU is lost"], (faults.SILENT_DRIVER,)),
        (["nvml: No module named 'pynvml'", "nvidia-smi: nvidia-smi ended with 18: Driver/library version mismatch"],
         (faults.SILENT_DRIVER,)),
        (["nvml: No module named 'pynvml'", "nvidia-smi: Command timed out after 60 seconds"], (faults.SILENT_DRIVER,)),
        (["nvml: Insufficient Permissions"], (faults.SILENT_DRIVER, faults.BLIND)),
    ],
)  # fmt: skip
def test_a_driver_that_fails_is_no_image_that_lacks_it(problems, causes):
    """Words of the driver itself tell the two apart; nobody accuses other pods of it."""
    found = judged(said(problems=problems))
    assert (found.verdict, found.causes) == (Verdict.INCONCLUSIVE, causes)


@pytest.mark.parametrize(
    ("node", "cause"),
    [
        (cluster.node("n1", 2, cordoned=True), faults.OUT_OF_SERVICE),
        (cluster.node("n1", 0, labels={"nvidia.com/gpu.count": "2", "nvidia.com/gpu.present": "true"}),
         faults.NONE_OFFERED),
        (cluster.node("n1", 2), faults.BUSY),
    ],
)  # fmt: skip
def test_why_no_pod_asked(node, cause):
    """A node that nothing may be placed on, or that offers slices, is not busy."""
    found = judged([], node=node)
    assert (found.verdict, found.causes) == (Verdict.INCONCLUSIVE, (cause,))


@pytest.mark.parametrize("count", ["0", "1", "2"])
def test_a_label_that_counts_fewer_gpus_than_are_offered(count):
    """Then those that are offered must have been asked, unless a label says that they are shared."""
    labels = {"nvidia.com/gpu.count": count}
    assert (
        judged(said(WELL, OTHER), node=cluster.node("n1", 8, labels=labels)).verdict is Verdict.INCONCLUSIVE
    )
    shared = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4"}
    assert judged(said(WELL, OTHER), node=cluster.node("n1", 8, labels=shared)).verdict is Verdict.PASS


def test_an_xid_may_be_passed_over():
    """By the profile; another one still counts."""
    assert judged(said(WELL, OTHER, log=[FATAL]), passed_over=[79]).verdict is Verdict.PASS
    assert judged(said(WELL, OTHER, log=[FATAL]), passed_over=[80]).verdict is Verdict.FAIL


def test_without_a_log_somebody_else_must_tell():
    """The driver itself, or a health system that watches the log."""
    silent = [{**gpu, "recovery": None} for gpu in (WELL, OTHER)]
    assert judged(said(WELL, OTHER, **UNREAD)).verdict is Verdict.PASS
    found = judged(said(*silent, **UNREAD))
    assert (found.verdict, found.causes) == (Verdict.INCONCLUSIVE, (faults.NO_LOG,))
    node = cluster.node("n1", 2, labels={"nvidia.com/gpu.count": "2"})
    node["status"]["conditions"].append({"type": "XIDErrors", "status": "False"})
    assert judged(said(*silent, **UNREAD), node=node).verdict is Verdict.PASS
    node["status"]["conditions"][-1]["status"] = "Unknown"
    assert judged(said(*silent, **UNREAD), node=node).verdict is Verdict.INCONCLUSIVE
    node["status"]["conditions"][-1]["status"] = "True"
    assert judged(said(WELL, OTHER), node=node).verdict is Verdict.FAIL


def test_a_device_that_cannot_be_asked_for():
    """The plugin took it out; what is left of the node is well."""
    node = cluster.node("n1", 2, 1, labels={"nvidia.com/gpu.count": "2"})
    found = judged(said(WELL), node=node)
    assert (found.verdict, found.causes) == (Verdict.FAIL, (faults.UNHEALTHY,))
    node = cluster.node("n1", 2, 0, labels={"nvidia.com/gpu.count": "2"})
    found = judged(said(WELL), node=node)
    assert (found.verdict, found.causes[:2]) == (Verdict.FAIL, (faults.PLUGIN_GONE, faults.UNHEALTHY))


@pytest.mark.parametrize(
    "lines",
    [
        [],
        said(),
        said(problems=["nvml: no library"]),
        said(WELL),
        said(WELL, OTHER)[:-1],
        said(WELL, OTHER)[1:],
        said(WELL, OTHER, gpus=3),
        said(WELL, OTHER, count=1),
        [*said(WELL, OTHER), *said(WELL, OTHER)[-1:]],
        said({}, OTHER)[1:],
    ],
)
def test_what_was_not_told_is_no_pass(lines):
    """Lines that are missing, repeated, or say that there were more."""
    assert judged(lines).verdict is Verdict.INCONCLUSIVE


@given(
    st.dictionaries(
        st.sampled_from(sorted(WELL)), st.none() | st.integers() | st.floats() | st.text(max_size=3)
    )
)
@amount.examples(80)
def test_nothing_that_is_not_understood_passes(change):
    """Only a GPU all of whose counts are 0 is well."""
    found = judged(said({**WELL, **change}, OTHER))
    gpu = {**WELL, **change}
    counts = [gpu[name] for name in ("uncorrected", "pending", "failed")]
    well = all(type(value) is int and value == 0 for value in counts) and gpu["lost"] is False
    assert found.verdict is not Verdict.PASS or well


def test_gpus_of_amd_by_the_kernels_files():
    """They have no field that says what must be done; causes speak of no tool of NVIDIA."""
    ras = [{**gpu, "recovery": None} for gpu in (WELL, OTHER)]
    node = cluster.node("n1", 2, resource="amd.com/gpu", labels={"amd.com/gpu.family": "AI"})
    assert judged(said(*ras, how="ras"), node=node, resource="amd.com/gpu").verdict is Verdict.PASS
    found = judged(said(*ras, how="ras", **UNREAD), node=node, resource="amd.com/gpu")
    assert found.verdict is Verdict.INCONCLUSIVE
    found = judged(said({**ras[0], "uncorrected": 1}, ras[1], how="ras"), node=node, resource="amd.com/gpu")
    assert found.verdict is Verdict.FAIL
    assert not any("nvidia" in f"{cause.text} {cause.fix}".lower() for cause in found.causes)


def test_the_shipped_list_of_xids_is_whole():
    """No number stands for both."""
    table = gpu_health.xids()
    assert not set(table["application"]) & set(table["fault"])
    assert table["source"]
