"""Presuppositions: what must have been observed before a judge's word counts (catalogue, rule 6)."""

import re

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.objects import pods as stories
from pytest_gpucluster.judge import creating, subjects, wording
from pytest_gpucluster.requirement import Cause, Presupposed

IMAGE = Cause(
    "the containers did not start",
    "check the image name and pull secrets of the profile, and that the node can pull",
)
NOT_STARTED = Cause(
    "the containers were not started: their configuration (a Secret, a ConfigMap, a user), their command, or the "
    "container runtime of the node",
    "read `kubectl describe pod`: the message of the container's state, and the events",
)
ENDED = Cause(
    "the kubelet ended the pod: its node ran short, it went over a limit of its own, or the node was shut down",
    "read `kubectl describe pod`: status.message of the pod says which",
)
PULLS = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError")
QUOTA = Cause(
    "a ResourceQuota of the namespace stops the creation of members; it counts waiting pods like running ones",
    "raise the ResourceQuota above what all members ask for, or run in a namespace without one: the queue "
    "limits what runs",
)
FORBIDDEN = re.compile(r'pods "(?P<pod>[^"]+)" is forbidden: (?P<why>.*)', re.DOTALL)
EXCEEDED = re.compile(r"exceeded quota: (?P<quota>[^,\s]+)")

REJECTED = Cause(
    "the kubelet rejected the pod after it was bound (devices, topology, volumes)",
    "read `kubectl describe pod`: reason and message of the pod's status",
)
EVICTION = Cause(
    "the eviction was refused: the permission is missing (403), or a PodDisruptionBudget forbids it (429)",
    "grant `create` on pods/eviction, and keep PodDisruptionBudgets out of the suite's namespace",
)
COMMANDS = Cause(
    "the command was refused: the permission is missing (403), or its API does not exist (404)",
    "grant `create` on commands.bus.volcano.sh, and install the CRDs of Volcano",
)


def members_made(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the members of the gangs under judgement could be created at all."""
    name = "the members can be created"
    gangs = subjects.of_the_row(evidence, given)
    there = {(pod.namespace, pod.name) for gang in gangs for pod in gang.pods}
    titles = {(gang.namespace, gang.name) for gang in gangs}
    refused: dict[str, tuple[str, str]] = {}
    for said in owners.all_said(evidence):
        namespace, about = said.namespace, said.obj.partition("/")[2]
        match = FORBIDDEN.search(said.message) if said.reason == "FailedCreate" else None
        if match and (namespace, about) in titles and (namespace, match["pod"]) not in there:
            refused[match["pod"]] = (match["why"], said.key)
    if refused:
        why, key = next(iter(refused.values()))
        quota = EXCEEDED.search(why)
        by = f"ResourceQuota {quota['quota']} stops" if quota else "the API server refuses"
        text = f"{by} the creation of {wording.listed(list(refused), 4)}: {wording.short(why)}"
        causes = (QUOTA if quota else creating.why(403, why),)
        return wording.presupposed(name, held=False, observed=text, causes=causes, evidence=(key,))
    made = sum(len(gang.pods) for gang in gangs)
    return wording.presupposed(name, held=True if made else None, observed=f"{made} members were created")


def pods_ran(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether containers of the gangs under judgement ran at all."""
    name = "pods run"
    gangs = subjects.of_the_row(evidence, given)
    pods = [pod for gang in gangs for pod in gang.pods]
    if not gangs and not subjects.of(evidence, given).arranged:
        pods = list(stories.pods(evidence))  # A recording of pods that nobody made as a gang.
    blocked = [(pod, pod.blocked()) for pod in pods if pod.blocked() and pod.running is None]
    if blocked:
        pod, why = blocked[0]
        told = fields.text(pod.last, "status", "reason")
        cause = REJECTED if told else IMAGE if why in PULLS else NOT_STARTED
        cause = ENDED if told in ("Evicted", "Terminated", "Shutdown") else cause
        keys = (pod.keys.get("bound") or pod.keys["created"],)
        return wording.presupposed(
            name, held=False, observed=f"{pod.where}: {why}", causes=(cause,), evidence=keys
        )
    logged = payload_lines.words(evidence).logged
    ran = [pod for pod in pods if pod.running is not None or pod.exit_codes or pod.uid in logged]
    if ran:
        text = f"{len(ran)} of {len(pods)} pods were seen to run"
        seen = tuple(pod.keys["running"] for pod in ran[:2] if "running" in pod.keys)
        return wording.presupposed(name, held=True, observed=text, evidence=seen)
    text = f"none of {len(pods)} pods was seen to run"
    failed = next(creating.refused(evidence), None) if not pods else None
    if failed is None:
        return wording.presupposed(name, held=None, observed=text)
    line, code, message = failed
    said = f"{text}: {fields.text(line.data, 'request')} was answered {code}: {wording.short(message)}"
    return wording.presupposed(
        name, held=None, observed=said, causes=(creating.why(code, message),), evidence=(line.key,)
    )


def eviction_permitted(evidence: Evidence, given: subjects.Given) -> Presupposed:  # noqa: ARG001
    """Say whether the API server took our request for an eviction; where none was made nothing stands on it."""
    return _taken(evidence, "evict", "pods may be evicted", EVICTION)


def commands_permitted(evidence: Evidence, given: subjects.Given) -> Presupposed:  # noqa: ARG001
    """Say whether the API server took our commands to Jobs; where none was given nothing stands on it."""
    return _taken(evidence, "command", "Jobs may be given commands", COMMANDS)


def _taken(evidence: Evidence, case: str, name: str, cause: Cause) -> Presupposed:
    answers = [line for line in evidence.responses() if line.data.get("case") == case]
    refused = [line for line in answers if int(line.data.get("code") or 0) >= 400]
    if refused:
        code, request = refused[0].data.get("code"), refused[0].data.get("request")
        text = f"{request}: refused, HTTP {code}"
        return wording.presupposed(
            name, held=False, observed=text, causes=(cause,), evidence=(refused[0].key,)
        )
    keys = tuple(line.key for line in answers[:2])
    return wording.presupposed(
        name, held=True, observed=f"{len(answers)} requests were accepted", evidence=keys
    )
