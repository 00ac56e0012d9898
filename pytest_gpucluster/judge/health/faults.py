"""HLT-002: no GPU waits for a row remap, has uncorrected errors or a fatal Xid, or is unhealthy."""

import re
from collections.abc import Iterator, Sequence

from pytest_gpucluster.evidence.hardware import gpu_health
from pytest_gpucluster.evidence.hardware.gpu_health import Gpu, View
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import labelled_gpus, node_status, quarantines
from pytest_gpucluster.evidence.objects.node_status import Machine
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.health.problems import Problem, decided
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = "no GPU waits for a row remap, has uncorrected memory errors or a fatal Xid, or is unhealthy"
OF_DEVICES = re.compile(r"gpu|xid|nvlink|nvswitch|nvidia|accelerat|remap|ecc|xgmi|amd|pcie", re.IGNORECASE)
"""Types of node conditions that speak of GPUs, among those that health systems set."""
NO_WAY = re.compile(
    r"no module named|is in the image|shared library not found|libnvidia-ml|no such file", re.IGNORECASE
)
"""How a way to ask GPUs says that the image has no library or tool for it."""
OF_DRIVER = re.compile(
    r"lost|mismatch|communicate with|not loaded|unknown error|timed? ?out|requires? reset|fallen",
    re.IGNORECASE,
)
"""How it says that the driver or a GPU does not answer."""
OF_XIDS = re.compile(r"xid|AcceleratedHardwareReady", re.IGNORECASE)
"""Types of node conditions whose owner reads the kernel's log for errors of GPUs."""

UNHEALTHY = Cause(
    "the device plugin has taken the GPU out of what can be asked for, after an error of the driver that it counts as "
    "critical; its restart hides that and heals nothing",
    "look at the plugin's log and at nvidia-smi -q on the node; reset the GPU or reboot the node, then restart the "
    "plugin's pod",
)
PLUGIN_GONE = Cause(
    "one candidate: the device plugin is gone or starts again, so that the kubelet offers none of its devices",
    "look at the plugin's pod on the node and at its restarts; INV-002 says what the node must offer",
)
REMAP = Cause(
    "memory with an error is remapped at the next reset only",
    "drain the node and reset the GPU (nvidia-smi --gpu-reset), or reboot the node; look again afterwards",
)
WORN = Cause(
    "the GPU has no spare memory left where it is needed, or memory that fails again",
    "take the GPU out of service and have the vendor exchange it",
)
UNCORRECTED = Cause(
    "memory of the GPU had errors that could not be corrected since the driver was loaded",
    "drain the node, reset the GPU and run the vendor's diagnosis (nvidia-smi -q shows where they were); have it "
    "exchanged if they come back",
)
FATAL = Cause(
    "the driver met a fault of the GPU, its memory or its links since the node was booted",
    "drain the node and reboot it; take the GPU out of service if the error comes back. An error that you know is "
    "passed over by `health.passed_over` in the profile",
)
LOST = Cause(
    "the GPU has left the bus, or its driver waits for it",
    "drain the node and reboot it; look at dmesg for the reason",
)
REPORTED = Cause(
    "a health system of the cluster reports the fault",
    "see what it says (kubectl describe node) and follow its advice; HLT-005 says who set it and how it ends",
)
BLIND = Cause(
    "the image has no library of the driver, or the container runtime does not bring its tool",
    "put the package nvidia-ml-py into the image of the role python, or let the runtime bring nvidia-smi "
    "(NVIDIA_DRIVER_CAPABILITIES with utility)",
)
NO_LOG = Cause(
    "pods may not read the kernel's log, the driver is too old to tell what must be done, and no health system watches",
    "run node-problem-detector or another system that reports Xid errors as node conditions, or update the driver",
)
UNLISTED = Cause(
    "the error is not in the list of those that faults of GPUs or programs of users make",
    "look its number up in the catalog of Xid errors; drain the node and reboot it if it is a fault, else name it "
    "under `health.passed_over` in the profile",
)
SILENT_DRIVER = Cause(
    "the driver of the node does not answer: a GPU is lost, or the driver's library is of another version than the "
    "kernel's module",
    "look at nvidia-smi and dmesg on the node; restart the driver's pod, or drain the node and reboot it",
)
OUT_OF_SERVICE = Cause(
    "the node was taken out of service, so that no pod of the run is placed there",
    "run this row when the node is back (kubectl uncordon), or look at nvidia-smi -q on the node itself",
)
NONE_OFFERED = Cause(
    "the node offers no whole GPU: its device plugin cuts all of them into slices, or is gone",
    "look at nvidia-smi -q on the node itself; INV-002 says whether the device plugin offers what it must",
)
OVERWRITTEN = Cause(
    "the kernel keeps so many lines and no more: newer ones took the place of those since the boot, or somebody "
    "cleared the log; nobody else watches",
    "run node-problem-detector or another system that reports Xid errors as node conditions, or update the driver so "
    "that it tells what must be done; log_buf_len of the kernel sets how much it keeps",
)
UNCOUNTED = Cause(
    "errors of its memory are not counted",
    "switch ECC on (nvidia-smi -e 1) and reboot the node",
)
NOT_OFFERED = Cause(
    "the node has fewer GPUs for its device plugin than its labels say: one is lost, or was taken out",
    "compare nvidia-smi -L on the node with the labels; INV-002 says which count differs",
)
TURNED_AWAY = Cause(
    "the kubelet does not find the pod's share of GPUs on one NUMA node",
    "see what the rows of the area numa say; a profile that declares no `numa.policy` has one pod hold all GPUs",
)
BUSY = Cause(
    "other pods hold GPUs of the node, so that no pod of the run could ask all of them",
    "run this row when the node is free",
)


@subjects.judge
def no_fault(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge HLT-002."""
    resource = str(given.get("gpu_resource") or "nvidia.com/gpu")
    nodes = node_status.gpu_nodes(evidence, resource)
    views: dict[str, list[View]] = {}
    for view in gpu_health.views(evidence, given):
        views.setdefault(str(view.pod.node or ""), []).append(view)
    passed_over = fields.sub(given, "health").get("passed_over")
    known = frozenset(passed_over) if isinstance(passed_over, list) else frozenset()
    found = {
        m.name: [*_of_node(m, resource), *_of_gpus(m, views.get(m.name, []), resource, known)] for m in nodes
    }
    gpus = [gpu for m in nodes for view in views.get(m.name, []) for gpu in view.gpus]
    bad = len({problem.key for each in found.values() for problem in each if not problem.open})
    of = wording.Findings(REQUIRED, repeat=("nvidia-smi -q -d ECC,ROW_REMAPPER; dmesg | grep Xid",))
    if not nodes:
        return of.inconclusive("no GPU node was seen")
    return decided(of, found, (Number("faults of GPUs", bad, "faults", 0, "required"),)) or of.passed(
        f"{wording.count(len(gpus), 'GPU')} of {wording.count(len(nodes), 'node')}, asked by "
        f"{wording.listed(sorted({v.how for m in nodes for v in views[m.name]}))}: no remap is pending or failed, no "
        f"uncorrected error; fatal errors: {wording.listed(_sources(nodes, views), 3)}",
        where=wording.shown([f"Node/{m.name}" for m in nodes]),
        evidence=tuple(view.key for m in nodes for view in views[m.name])[: wording.MANY],
        numbers=(Number("faults of GPUs", 0, "faults", 0, "required"),),
    )


def _of_node(machine: Machine, resource: str) -> Iterator[Problem]:
    """Yield what the Node object says."""
    there, usable = machine.offers(resource)
    if there > usable:
        # One that is taken out leaves the others; a plugin that is gone takes all of them along.
        causes = (UNHEALTHY,) if usable else (PLUGIN_GONE, UNHEALTHY)
        yield Problem(f"{there - usable} of {wording.count(there, 'GPU')} cannot be asked for", causes,
                      key=machine.line.key)  # fmt: skip
    for fault in _conditions(machine):
        yield Problem(
            f"{fault.system} reports {fault.text}", (REPORTED,), key=f"{machine.line.key} {fault.text}"
        )


def _conditions(machine: Machine) -> list[quarantines.Fault]:
    """Return the open faults of devices that health systems report as conditions."""
    return [
        fault for fault in quarantines.conditions(machine) if OF_DEVICES.search(fault.text.partition("=")[0])
    ]


def _of_gpus(
    machine: Machine, views: Sequence[View], resource: str, passed_over: frozenset[object]
) -> Iterator[Problem]:
    """Yield what the GPUs of a node say, and what the kernel's log says."""
    if not views or not any(view.gpus or view.log is not None for view in views):
        yield Problem("its GPUs were not asked", (_unasked(machine, resource),), open=True)
        return
    for view in views:
        if not view.gpus and view.problems:
            text = f"no way to ask its GPUs: {wording.listed(list(view.problems), 3)}"
            yield Problem(text, _blind(view.problems), open=True, key=view.key)
        elif reason := fields.text(view.pod.last, "status", "reason"):
            yield Problem(
                f"{view.pod.name} was turned away ({reason})", (TURNED_AWAY,), open=True, key=view.key
            )
        elif not view.whole or not view.gpus:
            text = f"not all that {view.pod.name} has to say was told"
            yield Problem(text, () if view.gpus or view.log is not None else (BUSY,), open=True, key=view.key)
    gpus = [gpu for view in views for gpu in view.gpus]
    for gpu in gpus:
        yield from _of_gpu(gpu)
    yield from _count(machine, gpus, resource)
    yield from _of_log(machine, views, passed_over)


def _unasked(machine: Machine, resource: str) -> Cause:
    """Return why no pod asked the GPUs of a node: as far as its own Node object says."""
    if machine.cordoned:
        return OUT_OF_SERVICE
    return BUSY if max(machine.offers(resource)) else NONE_OFFERED


def _blind(problems: Sequence[str]) -> tuple[Cause, ...]:
    """Return why GPUs could not be asked: a way that the image lacks says nothing of the driver, other words may."""
    if all(NO_WAY.search(text) for text in problems):
        return (BLIND,)
    return (SILENT_DRIVER,) if any(OF_DRIVER.search(text) for text in problems) else (SILENT_DRIVER, BLIND)


def _of_gpu(gpu: Gpu) -> Iterator[Problem]:
    if gpu.lost:
        yield Problem(f"{gpu.name} does not answer", (LOST,), key=gpu.key)
        return
    if gpu.failed:
        yield Problem(f"a row remap of {gpu.name} failed", (WORN,), key=gpu.key)
    if gpu.pending:
        yield Problem(f"a row remap of {gpu.name} is pending", (REMAP,), key=gpu.key)
    if gpu.uncorrected:
        text = f"{gpu.name} has {wording.count(gpu.uncorrected, 'uncorrected memory error')}"
        yield Problem(text, (UNCORRECTED,), key=gpu.key)
    if gpu.recovery:
        yield Problem(f"the driver asks for a recovery of {gpu.name} ({gpu.recovery})", (FATAL,), key=gpu.key)
    if gpu.ecc is False:
        yield Problem(f"{gpu.name} has ECC switched off", (UNCOUNTED,), open=True, key=gpu.key)
        return
    values = {
        "uncorrected errors": gpu.uncorrected,
        "pending remaps": gpu.pending,
        "failed remaps": gpu.failed,
    }
    untold = [name for name, value in values.items() if value is None]
    if untold:
        text = f"the driver of {gpu.name} does not tell {wording.listed(untold)}"
        yield Problem(text, (), open=True, key=gpu.key)


def _count(machine: Machine, gpus: Sequence[Gpu], resource: str) -> Iterator[Problem]:
    """Yield that fewer GPUs were asked than the node has, or that one was told twice."""
    discovered = labelled_gpus.discovered(machine)
    asked = {gpu.name for gpu in gpus}
    if len(asked) < len(gpus) and not discovered.sharing:
        yield Problem("one GPU was told twice", (), open=True, key=gpus[0].key)
    expected = labelled_gpus.expected(machine, resource)
    if expected is None and not discovered.cut:
        expected = max(machine.offers(resource))
    if expected is None or len(asked) < expected:
        of = "an unknown number of" if expected is None else str(expected)
        fewer = expected is not None and max(machine.offers(resource)) < expected
        causes = (NOT_OFFERED,) if fewer else (BUSY,) if gpus else ()
        yield Problem(f"{len(asked)} of {of} GPUs were asked", causes, open=True, key=machine.line.key)


def _of_log(machine: Machine, views: Sequence[View], passed_over: frozenset[object]) -> Iterator[Problem]:
    """Yield errors of the driver in the kernel's log, and that nobody looks for them."""
    table = gpu_health.xids()
    for number, line in dict.fromkeys((xid.number, xid.line) for view in views for xid in view.xids):
        if number in table["application"] or number in passed_over:
            continue
        meaning = None if number is None else table["fault"].get(number)
        of = "without a number" if number is None else f"{number} ({meaning or 'not in the list'})"
        yield Problem(
            f"Xid {of}: {wording.short(line, 120)}",
            (UNLISTED,) if meaning is None else (FATAL,),
            open=meaning is None,
            key=f"{views[0].key} Xid {number}",
        )
    for line in dict.fromkeys(line for view in views for line in view.resets):
        yield Problem(wording.short(line, 120), (FATAL,), key=f"{views[0].key} {line}")
    if not _watched(machine, views):
        read = any(view.log for view in views)
        why = next((view.why for view in views if view.why), "not told")
        log = "does not reach back to the boot" if read else f"cannot be read ({why})"
        yield Problem(
            f"fatal errors are told by nobody: the kernel's log {log}",
            (OVERWRITTEN if read else NO_LOG,),
            open=True,
            key=views[0].key,
        )
    elif any(view.log and view.cut for view in views):
        yield Problem(
            "the kernel's log has more lines about GPUs than were told", (), open=True, key=views[0].key
        )


def _watched(machine: Machine, views: Sequence[View]) -> list[str]:
    """Return who tells fatal errors of a node's GPUs."""
    conditions = fields.items(machine.line.object, "status", "conditions")
    kinds = [str(one.get("type")) for one in conditions if str(one.get("status")) in ("True", "False")]
    gpus = [gpu for view in views for gpu in view.gpus]
    asked = bool(gpus) and all(gpu.recovery is not None for gpu in gpus)
    return [
        *(["the kernel's log"] if any(view.log and view.from_boot for view in views) else []),
        *(["what the driver says must be done"] if asked else []),
        *(f"condition {kind}" for kind in kinds if OF_XIDS.search(kind)),
    ]


def _sources(nodes: tuple[Machine, ...], views: dict[str, list[View]]) -> list[str]:
    told = [source for m in nodes for source in _watched(m, views[m.name])]
    return list(dict.fromkeys(told))
