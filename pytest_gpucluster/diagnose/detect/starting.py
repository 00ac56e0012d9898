"""Bound pods that do not start: images, Secrets and mounts, what the container runtime says, silent kubelets."""

import re
from collections.abc import Iterator

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.diagnose.detect import pulling, runtime
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause

OF_SCHEDULERS = ("FailedScheduling", "Unschedulable", "FailedBinding", "NotTriggerScaleUp")
"""Warnings about a pod from before it had a node."""

SLOW_START = 60.0
"""Seconds after which a bound pod without a started container is worth a word; a volume's first mount may fail once."""


def failed_starts(s: Situation) -> Iterator[Suspect]:
    """A container was never started: its runtime says why, and no log does."""
    groups: dict[str, list[tuple[PodStory, str, str]]] = {}
    for pod in s.pods:
        if pod.phase == "Succeeded":
            continue
        for part in ("initContainerStatuses", "containerStatuses"):
            for status in fields.items(pod.last, "status", part):
                ended = containers.end_of(status, "state") or containers.end_of(status, "lastState")
                if fields.text(ended, "reason") not in runtime.START_ERRORS:
                    continue
                message = fields.text(ended, "message") or _said(s, pod, "Failed")
                meaning, fix = runtime.says(pod, message)
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


def waiting_containers(s: Situation) -> Iterator[Suspect]:
    """Containers of bound pods wait: for an image, for a volume or Secret, or because they cannot be started."""
    groups: dict[tuple[str, str], list[tuple[PodStory, fields.Object]]] = {}
    for pod in s.bound:
        for part in ("initContainerStatuses", "containerStatuses"):
            for status in fields.items(pod.last, "status", part):
                reason = fields.text(status, "state", "waiting", "reason")
                if reason in pulling.REASONS:
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
    look = f"kubectl describe pod{s.space} {pods[0].name}"
    told = _said(s, pods[0], "Failed") if "Back-off" in message else ""
    said = f"{message}: {told}" if told else message
    why, fix = pulling.why(said, image, pods[0].node or "its node", look)
    cause = Cause(f"the image {image or 'of a container'} cannot be pulled: {why}", fix)
    seen = (
        f"{len(pods)} of {wording.count(len(s.pods), 'pod')} wait for it: {words.short(said) or 'no message'}"
    )
    return fault(
        "image", Stage.START, cause, seen, where=wording.places(pods), rows=("INV-007",),
        evidence=tuple(p.keys.get("bound") or p.keys["created"] for p in pods[:4]), look=(look,),
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
        cause = Cause(f"{text}: {reason}", "create it, or correct its name in the pod template")
    elif reason in runtime.START_ERRORS and message:
        meaning, fix = runtime.says(pods[0], message)
        cause = Cause(f"a container cannot be started: {meaning}; {words.short(message)}", fix)
    else:
        found = runtime.of(runtime.CONFIGURATION, pods[0], message)
        told = (
            f"{found[0]} ({reason})" if found else f"{reason}: {words.short(message)}" if message else reason
        )
        fix = found[1] if found else "follow the message" if message else _ask(s, pods[0])
        cause = Cause(f"a container cannot be started: {told}", fix)
    seen = f"{len(pods)} of {wording.count(len(s.pods), 'pod')}: {words.short(message) or reason}"
    return fault(
        "start", Stage.START, cause, seen, where=wording.places(pods),
        look=(f"kubectl describe pod{s.space} {pods[0].name}",),
        evidence=tuple(p.keys.get("bound") or p.keys["created"] for p in pods[:4]),
    )  # fmt: skip


def _ask(s: Situation, pod: PodStory) -> str:
    return f"kubectl describe pod{s.space} {pod.name} says why: a ConfigMap, a Secret, a command or a mount"


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
        said = [x for x in s.said_of_pod(pod) if x.type == "Warning" and x.reason not in OF_SCHEDULERS]
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
                "create it, or correct its name in the pod template; the kubelet tries again by itself",
            )
        else:
            cause = _not_created(s, pod, said[-1].message if said else "")
        seen = f"{pod.name} has been on {pod.node} for {s.now - pod.bound:.0f} s and did not start; {why}"
        yield fault(
            "slow-start", Stage.START, cause, seen, certainty, where=(pod.where,), evidence=(pod.keys["bound"],),
            look=(f"kubectl describe pod{s.space} {pod.name}",),
        )  # fmt: skip
        return


def _not_created(s: Situation, pod: PodStory, message: str) -> Cause:
    """Return why no container of a bound pod was made, by the last warning about it."""
    if not message:
        return Cause(
            f"a container of {pod.name} cannot be created (volume, network, device), and no event gives a reason",
            f"kubectl describe pod{s.space} {pod.name}; then the log of the kubelet of {pod.node}: its events are kept "
            "for an hour only",
        )
    found = runtime.of((*runtime.CONFIGURATION, *runtime.SANDBOX), pod, message)
    if found is None:
        return Cause(
            f"a container of {pod.name} cannot be created: {words.short(message)}",
            f"correct the fault that the event names; see the log of the kubelet of {pod.node}",
        )
    return Cause(f"a container of {pod.name} cannot be created: {found[0]}; {words.short(message)}", found[1])


def _init_running(pod: PodStory) -> str:
    aside = {
        str(c.get("name"))
        for c in fields.items(pod.last, "spec", "initContainers")
        if containers.is_sidecar(c)
    }
    for status in fields.items(pod.last, "status", "initContainerStatuses"):
        if status.get("name") not in aside and fields.sub(status, "state").get("running") is not None:
            return fields.text(status, "name")
    return ""
