"""Bound pods that do not start: images, Secrets and mounts, what the container runtime says, silent kubelets."""

import re
from collections.abc import Iterator

from pytest_gpucluster.diagnose import machines, words
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause

SLOW_START = 60.0
"""Seconds after which a bound pod without a started container is worth a word; a volume's first mount may fail once."""


START_ERRORS = ("StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError")
"""Reasons by which kubelets say that a runtime did not start a container: it never ran, and has no log."""

RUNTIME: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"driver/library version mismatch|[Dd]river and library version"),
     "the GPU driver and its libraries on {node} do not match (the libraries were updated under a loaded driver)",
     "drain {node} and reboot it, or reload the driver's kernel modules; pin the driver's packages against updates"),
    (re.compile(r"nvml error: driver not loaded|driver is not loaded|NVIDIA driver .*not|libnvidia-ml\.so|"
                r"load library failed: libnvidia"),
     "the GPU driver of {node} is not loaded", "look at the driver's pod or package on {node} ({check}), or drain it"),
    (re.compile(r"unresolvable CDI devices|failed to inject CDI|could not select device driver|CDI device"),
     "the runtime of {node} does not know the device that the plugin allocated (CDI)",
     "check the CDI specifications (/var/run/cdi, /etc/cdi) and the container toolkit on {node}; restart its plugin"),
    (re.compile(r"nvidia-container-cli|nvidia-container-runtime|prestart hook|rocm|GPU is lost|unknown device"),
     "the container runtime of {node} could not give the container its GPU", ("look {check}, and at its "
                                                                             "container toolkit")),
    (re.compile(r"exec format error"),
     "the image is built for another processor architecture than {node} has", "use an image for its architecture"),
    (re.compile(r"executable file not found|exec: .*(?:no such file or directory|permission denied)"),
     "the command is not in the image, or is not executable", "correct the command, or its mode in the image"),
    (re.compile(r"mount|not a directory|bind source path"),
     "a mount of the container fails", "correct the volume or subPath that the message names"),
    (re.compile(r"cgroup|memory limit too low|oom"),
     "its limits are too small to start a process", "raise resources.limits.memory"),
    (re.compile(r"seccomp|apparmor|selinux|operation not permitted", re.IGNORECASE),
     "the security profile of {node} or of the pod forbids it", "look at the security context and the node's profiles"),
)  # fmt: skip
"""(what a container runtime says, what it means, what to do); {node}, {check}: how its devices are looked at."""


def runtime_says(pod: PodStory, message: str) -> tuple[str, str]:
    """Return (what a container runtime's message means, what to do)."""
    resource = next(iter(fields.scarce_resources(pod.last)), "")
    named = {"node": pod.node or "its node", "check": machines.check(resource, pod.node or "its node")}
    for pattern, text, fix in RUNTIME:
        if pattern.search(message):
            return text.format(**named), fix.format(**named)
    return (
        "the container runtime could not start it",
        f"follow the message; look at the runtime's log on {named['node']}",
    )


def failed_starts(s: Situation) -> Iterator[Suspect]:
    """A container was never started: its runtime says why, and no log does."""
    groups: dict[str, list[tuple[PodStory, str, str]]] = {}
    for pod in s.pods:
        if pod.phase == "Succeeded":
            continue
        for part in ("initContainerStatuses", "containerStatuses"):
            for status in fields.items(pod.last, "status", part):
                ended = containers.end_of(status, "state") or containers.end_of(status, "lastState")
                if fields.text(ended, "reason") not in START_ERRORS:
                    continue
                message = fields.text(ended, "message") or _said(s, pod, "Failed")
                meaning, fix = runtime_says(pod, message)
                groups.setdefault(f"{meaning}\0{fix}", []).append((pod, str(status.get("name")), message))
    for key, found in groups.items():
        meaning, fix = key.split("\0")
        pods = [pod for pod, *_ in found]
        pod, container, message = found[0]
        said = words.short(message) or "the runtime gives no message"
        cause = Cause(f"{pod.name} did not start: {meaning}; the runtime reports: {said}", fix)
        seen = (
            f"{len(pods)} of {wording.count(len(s.pods), 'pod')}: container {container} was never started "
            "(StartError)"
        )
        yield fault(
            "start-error", Stage.START, cause, seen, where=wording.places(pods),
            rows=("HLT-004",) if "GPU" in meaning else (),
            evidence=tuple(p.keys.get("finished") or p.keys["created"] for p in pods[:4]),
            look=(f"kubectl describe pod{s.space} {pod.name}", f"kubectl describe node {pod.node}"),
        )  # fmt: skip


IMAGE_REASONS = frozenset({
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
    "RegistryUnavailable", "SignatureValidationFailed",
})  # fmt: skip

IMAGE_FIXES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"unauthorized|denied|authentication|forbidden|401|403", re.IGNORECASE),
     "give the task template imagePullSecrets with access to the registry"),
    (re.compile(r"not found|manifest unknown|404|does not exist", re.IGNORECASE),
     "correct the image's name, tag or digest: the registry does not have it"),
    (re.compile(r"timeout|timed out|no such host|connection|i/o|TLS|certificate", re.IGNORECASE),
     "the node cannot reach the registry: check its proxy, DNS and certificates"),
    (re.compile(r"pull policy of Never|ErrImageNeverPull"),
     "put the image on the node, or use imagePullPolicy IfNotPresent"),
)  # fmt: skip


def waiting_containers(s: Situation) -> Iterator[Suspect]:
    """Containers of bound pods wait: for an image, for a volume or Secret, or because they cannot be started."""
    groups: dict[tuple[str, str], list[tuple[PodStory, fields.Object]]] = {}
    for pod in s.bound:
        for part in ("initContainerStatuses", "containerStatuses"):
            for status in fields.items(pod.last, "status", part):
                reason = fields.text(status, "state", "waiting", "reason")
                if reason in IMAGE_REASONS:
                    groups.setdefault(
                        ("image", fields.text(status, "image") or _image(pod, status)), []
                    ).append((pod, status))
                elif reason and reason not in ("ContainerCreating", "PodInitializing", "CrashLoopBackOff"):
                    groups.setdefault(("start", reason), []).append((pod, status))
    for (what, detail), found in groups.items():
        pods = [pod for pod, _ in found]
        message = next((m for _, st in found if (m := fields.text(st, "state", "waiting", "message"))), "")
        message = message or _said(s, pods[0], "Failed")
        yield (
            _image_suspect(s, detail, pods, message)
            if what == "image"
            else _start_suspect(s, detail, pods, message)
        )


def _image(pod: PodStory, status: fields.Object) -> str:
    named = (*fields.containers(pod.last), *fields.items(pod.last, "spec", "initContainers"))
    return next((fields.text(c, "image") for c in named if c.get("name") == status.get("name")), "")


def _said(s: Situation, pod: PodStory, reason: str) -> str:
    return next((said.message for said in reversed(s.said_of_pod(pod)) if said.reason == reason), "")


def _image_suspect(s: Situation, image: str, pods: list[PodStory], message: str) -> Suspect:
    fix = next((fix for pattern, fix in IMAGE_FIXES if pattern.search(message)), "")
    cause = Cause(
        f"the image {image or 'of a container'} cannot be pulled",
        fix or "check the image's name, the pull secrets, and whether the node reaches the registry",
    )
    seen = f"{len(pods)} of {wording.count(len(s.pods), 'pod')} wait for it: {words.short(message) or 'no message'}"
    return fault(
        "image", Stage.START, cause, seen, where=wording.places(pods), rows=("INV-007",),
        evidence=tuple(p.keys.get("bound") or p.keys["created"] for p in pods[:4]),
        look=(f"kubectl describe pod{s.space} {pods[0].name}",),
    )  # fmt: skip


ABSENT = re.compile(
    r"(?P<kind>secret|configmap|persistentvolumeclaim|serviceaccount)s? \"?(?P<name>[\w.-]+)\"? (?:is )?not found",
    re.IGNORECASE,
)
"""How kubelets say that what a container needs is not there."""


def _kind(absent: re.Match[str]) -> str:
    known = {"secret": "Secret", "configmap": "ConfigMap", "serviceaccount": "ServiceAccount"}
    return known.get(absent["kind"].lower(), "PersistentVolumeClaim")


def _start_suspect(s: Situation, reason: str, pods: list[PodStory], message: str) -> Suspect:
    absent = ABSENT.search(message)
    if absent is not None:
        text = f"the {_kind(absent)} {absent['name']!r} that a container needs does not exist"
        text += f" in namespace {s.namespace}" if s.namespace else ""
        cause = Cause(f"{text}: {reason}", "create it, or correct its name in the task template")
    elif reason in START_ERRORS and message:
        meaning, fix = runtime_says(pods[0], message)
        cause = Cause(f"a container cannot be started: {meaning}; {words.short(message)}", fix)
    else:
        cause = Cause(
            f"a container cannot be started: {reason}",
            "correct what the message names: a ConfigMap or Secret that does not exist, a command that the image "
            "lacks, or a volume path",
        )
    seen = f"{len(pods)} of {wording.count(len(s.pods), 'pod')}: {words.short(message) or reason}"
    return fault(
        "start", Stage.START, cause, seen, where=wording.places(pods),
        look=(f"kubectl describe pod{s.space} {pods[0].name}",),
        evidence=tuple(p.keys.get("bound") or p.keys["created"] for p in pods[:4]),
    )  # fmt: skip


def slow_start(s: Situation) -> Iterator[Suspect]:
    """A pod has had a node for long, and none of its containers was made."""
    for pod in s.bound:
        if (
            pod.running is not None
            or pod.phase != "Pending"
            or pod.bound is None
            or s.now - pod.bound < SLOW_START
        ):
            continue
        statuses = fields.items(pod.last, "status", "containerStatuses")
        reasons = {fields.text(st, "state", "waiting", "reason") for st in statuses}
        if not reasons <= {"", "ContainerCreating", "PodInitializing"}:
            continue
        said = [x for x in s.said_of_pod(pod) if x.type == "Warning"]
        why = f"{said[-1].reason}: {words.short(said[-1].message)}" if said else "no event gives a reason"
        init = _init_running(pod)
        certainty = LIKELY
        if init:
            cause = Cause(
                f"its init container {init} has not ended",
                "read its log: it waits for something (a name, a port, a volume)",
            )
        elif not statuses and not said:
            cause = Cause(
                f"the kubelet of {pod.node} does not act on the pod",
                f"look at the node: kubectl describe node {pod.node}",
            )
        elif said and (absent := ABSENT.search(said[-1].message)) is not None:
            certainty = SURE
            cause = Cause(
                f"the {_kind(absent)} {absent['name']!r} that {pod.name} mounts does not exist in namespace "
                f"{s.namespace}",
                "create it, or correct its name in the task template; the kubelet tries again by itself",
            )
        else:
            told = (
                f": {words.short(said[-1].message)}"
                if said
                else " (volume, network, device), and no event gives a reason"
            )
            cause = Cause(
                f"a container of {pod.name} cannot be created{told}",
                f"correct the fault that the event names; see the log of the kubelet of {pod.node}",
            )
        seen = f"{pod.name} has been on {pod.node} for {s.now - pod.bound:.0f} s and did not start; {why}"
        yield fault(
            "slow-start", Stage.START, cause, seen, certainty, where=(pod.where,), evidence=(pod.keys["bound"],),
            look=(f"kubectl describe pod{s.space} {pod.name}",),
        )  # fmt: skip
        return


def _init_running(pod: PodStory) -> str:
    for status in fields.items(pod.last, "status", "initContainerStatuses"):
        if fields.sub(status, "state").get("running") is not None:
            return fields.text(status, "name")
    return ""
