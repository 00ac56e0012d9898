"""Refused at placement: the pods are there and wait, and the scheduler says of them why."""

import re
from collections.abc import Iterator, Sequence

from pytest_gpucluster.diagnose import machines, reckoning, words
from pytest_gpucluster.diagnose.detect import gated, lost, never, nodes
from pytest_gpucluster.diagnose.detect.limits import Refused, amount
from pytest_gpucluster.diagnose.detect.room import SHORT, why_short
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, POSSIBLE, SURE, fault, note, refusal
from pytest_gpucluster.diagnose.model import Certainty, Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects.pods import Waiting
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause

REASONS: tuple[tuple[str, re.Pattern[str], str, str], ...] = (
    (
        "taint", re.compile(r"(?:untolerated taint|had taint)s?\(?s?\)?\s*(\{[^}]*\})?", re.IGNORECASE),
        "nodes carry a taint that the pods do not tolerate {0}", "add the toleration to every task template",
    ),
    (
        "selector", re.compile(r"(?<!volume )(?:node affinity|node selector|NodeAffinity|NodeSelector)(?:/selector)?"),
        "no node matches the nodeSelector or node affinity of the pods",
        "compare it with the labels of the GPU nodes (kubectl get nodes --show-labels)",
    ),
    (
        "cordoned", re.compile(r"\b(\d{1,6}) node\(s\) were unschedulable"), "{0} node(s) are cordoned",
        "uncordon them once they are healthy (kubectl uncordon), or add nodes",
    ),
    (
        "volume", re.compile(r"(?:unbound immediate PersistentVolumeClaims|persistentvolumeclaim \S+ not found|"
                             r"volume node affinity conflict|didn't find available persistent volumes|volume limits)",
                             re.IGNORECASE),
        "a volume claim of the pods is not bound, or is bound elsewhere", "check the claims (kubectl get pvc)",
    ),
    (
        "claim", re.compile(r"cannot allocate all claims|resource ?claims?\b|ResourceClaim", re.IGNORECASE),
        "the devices that the pods claim (resourceClaims) are not available, or the claims are not there",
        "check the claims and what the drivers offer (kubectl get resourceclaims,deviceclasses,resourceslices)",
    ),
    (
        "ports", re.compile(r"didn't have free ports"), "a host port of the pods is taken on every node",
        "do not use hostNetwork or hostPort: the pytorch and mpi plugins add their port to every container",
    ),
    (
        "pods", re.compile(r"Too many pods", re.IGNORECASE), "nodes run as many pods as they may (allocatable pods)",
        "free pods there, raise maxPods of the kubelets, or add nodes",
    ),
    (
        "apart", re.compile(r"anti-affinity|topology spread", re.IGNORECASE),
        "anti-affinity or spread constraints of the pods leave no node", "relax them, or add nodes",
    ),
)  # fmt: skip
"""(class, text of the scheduler, cause, fix): why no node takes a pod, other than for want of a resource."""


CLAIM = "PersistentVolumeClaim"

MOST_PODS = 12
"""Pods without a gang that are looked at one by one."""

IN_SIGHT = re.compile(r"can possibly be assigned to \S+, once")
"""What Volcano says of a pod that has its node as soon as others of the gang have theirs, or a pod there is gone."""


def refused_at_placement(s: Situation) -> Iterator[Suspect]:
    """Pods exist and wait: the scheduler says which of them has no node, and why."""
    for one in _apart(s):
        yield from _refused(one)


def _apart(s: Situation) -> tuple[Situation, ...]:
    """Return the situation of a gang, and of pods without one each by itself: they do not wait for each other."""
    if s.gang is not None:
        return (s,)
    return tuple(Situation(s.evidence, None, (pod,)) for pod in s.unbound[:MOST_PODS])


def _refused(s: Situation) -> Iterator[Suspect]:
    if s.whole or s.ended or not s.unbound or any(map(gated.gates_of, s.unbound)):
        return
    if s.now - min(p.created for p in s.unbound) <= s.patience:
        return
    text, keys = _placement_words(s) or ("", ())
    if not text and (not s.objects("Node") or len(s.pods) < s.minimum):
        return
    base = f"{wording.part(s.held, s.minimum)} members placed; " if s.gang else ""
    base += f"{_numbers(s)}the scheduler says" + (
        f": {words.short(text, 600)}" if text else " nothing about the pods"
    )
    stage = Stage.PLACE
    if s.was_whole and s.held and text:
        yield lost.member_lost(s, base, text, keys)
        return
    classes = [
        (name, found, cause, fix) for name, pattern, cause, fix in REASONS if (found := pattern.search(text))
    ]
    short = list(dict.fromkeys(r.removesuffix(".") for r in SHORT.findall(text)))
    too_large = _too_large(s, short)
    if too_large is not None:
        cause, none = too_large
        if none:
            yield fault(
                "no-node-selector", stage, cause, base, SURE, evidence=keys, where=wording.places(s.unbound),
                look=("kubectl get nodes --show-labels",),
            )  # fmt: skip
        else:
            yield refusal(
                "member-too-large", stage, cause, base, evidence=keys, rows=("REF-001",), forever=True
            )
        return
    nowhere = _no_node_matches(s)
    if nowhere is not None:
        yield fault(
            "no-node-selector", stage, nowhere, base, SURE, evidence=keys, where=wording.places(s.unbound),
            look=("kubectl get nodes --show-labels",),
        )  # fmt: skip
        return
    yield from _told(s, classes, short, Refused(stage, base, keys, text))


def _told(
    s: Situation, classes: list[tuple[str, re.Match[str], str, str]], short: list[str], said: Refused
) -> Iterator[Suspect]:
    """Yield what the scheduler's words say, or, where they name nothing, what nodes, queues and pods say."""
    shut = nodes.shut(s)
    lacks_alone = bool(short) and all(_only_nodes_without(s, said.words, r) for r in short)
    if _some_node_matches(s):
        classes = [one for one in classes if one[0] != "selector"]  # what the nodes that match lack decides
    if any(name == "apart" for name, *_ in classes):
        too_many = never.larger_than_the_cluster(s, short, said)
        if too_many is not None:
            yield too_many
            return
    for name, found, cause, fix in classes:
        if shut is not None and name in ("cordoned", "taint"):
            continue  # told with names and numbers by another detector
        told = next((g for g in found.groups() if g), "") if found.groups() else ""
        more = _claims(s) if name == "volume" else ""
        alone = lacks_alone and name not in ("cordoned", "taint")
        yield fault(
            f"no-node-{name}", Stage.PLACE, Cause(" ".join(cause.format(told).split()) + more, fix), said.text,
            SURE if alone else _weight(s, name, told, short), evidence=said.keys,
            where=wording.places(s.unbound), look=wording.repeat(s.gang) if s.gang else (),
        )  # fmt: skip
    if lacks_alone and any(name not in ("cordoned", "taint") for name, *_ in classes):
        return  # the nodes that lack it have none of it at all: they are not those that the gang could use
    if short or not classes:
        yield from why_short(s, short, said)


def _claims(s: Situation) -> str:
    """Return the volume claims that the waiting pods name and what is known of each, "" where that is all well."""
    wanted = {
        fields.text(volume, "persistentVolumeClaim", "claimName")
        for p in s.unbound for volume in fields.items(p.last, "spec", "volumes")
    } - {""}  # fmt: skip
    listed = bool(s.objects(CLAIM)) or s.looked_at(CLAIM)
    told = []
    for name in sorted(wanted):
        line = s.object(CLAIM, name, s.namespace)
        phase = fields.text(line.object, "status", "phase") if line is not None else ""
        if line is None and listed:
            told.append(f"{name} does not exist")
        elif line is not None and phase != "Bound":
            kind = fields.text(line.object, "spec", "storageClassName")
            said = s.said(CLAIM, s.namespace, name, line.uid)
            why = f": {words.short(said[-1].message)}" if said else ""
            told.append(
                f"{name} is {phase or 'without phase'}" + (f" (storage class {kind})" if kind else "") + why
            )
    return f": {wording.listed(told, 3)}" if told else ""


def _some_node_matches(s: Situation) -> bool:
    """Report whether each waiting pod finds a node with the labels that it asks for."""
    every = s.objects("Node")
    return bool(every) and all(
        any(machines.selects(p.last, line.object) for line in every) for p in s.unbound if _choosy(p.last)
    )


def _no_node_matches(s: Situation) -> Cause | None:
    """Return that no node, of those that have what the pods ask for, has the labels that they ask for."""
    spec = next((p.last for p in s.unbound if _choosy(p.last)), None)
    every = s.objects("Node")
    if spec is None or not every or any(machines.selects(spec, line.object) for line in every):
        return None
    missing = sorted({machines.unmet(spec, line.object) for line in every})
    asked = missing[0]
    key = asked.partition("=")[0].partition(" ")[0]
    values = sorted({
        str(v) for line in every if (v := fields.sub(line.object, "metadata", "labels").get(key)) is not None
    })  # fmt: skip
    if key == "metadata.name":
        return Cause(
            f"the pods may only run on a node that does not exist: they ask for {wording.listed(missing, 3)}",
            "see whether the node was removed or renamed (kubectl get nodes); pods of a DaemonSet go with their node",
        )
    has = f"nodes have {key}={wording.listed(values, 4)}" if values else f"no node has the label {key}"
    return Cause(
        "no node matches the nodeSelector or node affinity of the pods: they ask for "
        f"{wording.listed(missing, 3)}, but {has}",
        "correct the selector in the task templates, or label the nodes (kubectl label node)",
    )


def _choosy(spec: fields.Object) -> bool:
    return bool(
        fields.sub(spec, "spec").get("nodeSelector")
        or fields.sub(spec, "spec", "affinity").get("nodeAffinity")
    )


def _only_nodes_without(s: Situation, text: str, resource: str) -> bool:
    """Report whether all nodes that are told to lack a resource never had any, such as the control plane."""
    told = [int(n) for n in re.findall(rf"\b(\d{{1,6}}) Insufficient {re.escape(resource)}(?![\w/-])", text)]
    if not told or not s.objects("Node"):
        return False
    without = sum(
        not fields.quantity(fields.sub(line.object, "status", "allocatable").get(resource, 0))
        for line in s.objects("Node")
    )
    return max(told) <= without


def best_effort(s: Situation) -> Iterator[Suspect]:
    """Members that ask for nothing wait: the gang's gate does not place them, backfill does, one by one."""
    bare = [p for p in s.unbound if not fields.resources(p.last)]
    if s.gang is None or s.ended or not bare or s.now - min(p.created for p in bare) <= s.silent:
        return
    cause = Cause(
        f"{wording.listed([p.name for p in bare], 4)} request nothing, not even CPU: the gang does not wait for "
        "them, and the scheduler's backfill places them one by one, if at all",
        "give every container of every task requests (a little CPU and memory suffices, and GPUs if they use any)",
    )
    seen = (
        f"{wording.part(s.held, s.minimum)} members placed; {len(bare)} of the waiting pods have no requests"
    )
    yield fault(
        "best-effort", Stage.PLACE, cause, seen, where=wording.places(bare), look=wording.repeat(s.gang),
        evidence=tuple(p.keys["created"] for p in bare[:4]),
    )  # fmt: skip


def _weight(s: Situation, name: str, told: str, short: Sequence[str]) -> Certainty:
    """Return how likely a reason is the one that matters where other nodes are short of a resource.

    A control plane's taint keeps nobody waiting; the taint of the nodes that have the GPUs does.
    """
    if not short:
        return SURE
    if name != "taint":
        return LIKELY
    tainted = [
        line for line in s.objects("Node")
        if fields.sub(line.object, "spec").get("taints")
        and any(fields.quantity(fields.sub(line.object, "status", "allocatable").get(r, 0)) for r in short)
    ]  # fmt: skip
    return LIKELY if tainted or any(r in told or "gpu" in told for r in short) else POSSIBLE


def _numbers(s: Situation) -> str:
    newest = [p.waiting[-1] for p in s.unbound if p.waiting]
    fitting = sum(one.reason == "Schedulable" for one in newest)
    soon = sum(_has_place(one) for one in newest) - fitting
    text = (
        f"{fitting} of the {len(s.unbound)} waiting pods would fit alone (reason Schedulable); "
        if fitting
        else ""
    )
    text += f"{soon} of the {len(s.unbound)} have a candidate node; " if soon else ""
    promised = {
        p.name: node for p in s.unbound if (node := fields.text(p.last, "status", "nominatedNodeName"))
    }
    told = wording.listed([f"{name} on {node}" for name, node in promised.items()], 3)
    return text + (f"nominated, once preempted pods there have ended: {told}; " if told else "")


def _has_place(one: Waiting) -> bool:
    """Report whether a pod is told a node that it could have: its words tell nothing of what holds the gang up."""
    return one.reason == "Schedulable" or bool(IN_SIGHT.search(one.message))


def _placement_words(s: Situation) -> tuple[str, tuple[str, ...]] | None:
    """Return the newest reasons that the scheduler gave for the pods that wait now, and their keys."""
    parts: dict[str, str] = {}
    for pod in s.unbound:
        for waiting in pod.waiting[-1:]:
            if not _has_place(waiting) and "predicated failed, skip" not in waiting.message:
                parts.setdefault(waiting.message or waiting.reason, waiting.key)
        failed = [w for w in s.said_of_pod(pod) if w.reason == "FailedScheduling"]
        for one in failed[-1:] if not pod.waiting else ():
            parts.setdefault(one.message, one.key)
    parts = dict(
        list(parts.items())[:3]
    )  # what is said of the gang is not crowded out by what is said of its pods
    if s.group is not None:
        for said in s.group.conditions[-2:]:
            if said.type == "Unschedulable=True":
                parts.setdefault(said.message, said.key)
    if s.reading is not None and s.reading.held is not None and not parts:
        for held in s.reading.held.reasons[-2:]:
            parts.setdefault(held.message, held.key)
    for pod in s.unbound if not parts else ():
        for waiting in pod.waiting[-1:]:
            if waiting.reason != "Schedulable":
                parts.setdefault(waiting.message or waiting.reason, waiting.key)
    if not parts:
        return None
    return " | ".join(list(parts)[:4]), tuple(list(parts.values())[:4])


def _too_large(s: Situation, short: Sequence[str]) -> tuple[Cause, bool] | None:
    """Return that one pod asks for more than any node has that takes it, and whether these have none at all."""
    for same in reckoning.alike([p.last for p in s.unbound]):
        asked = fields.demands(same[0])
        taking = [line for line in s.objects("Node") if reckoning.takes(same[0], line, closed_too=True)]
        for resource in (*(r for r in short if r in asked), *asked):
            rooms = [reckoning.has(line, resource, healed=True) for line in taking]
            most = max((room for room in rooms if room is not None), default=None)
            if most is None or None in rooms or not s.advertised.get(resource) or asked[resource] <= most:
                continue
            names_ = wording.listed([line.name for line in taking], 3)
            if not most:
                cause = Cause(
                    f"the nodes that nodeSelector or node affinity let the pods go to ({names_}) have no {resource}",
                    f"correct the selector in the pods' templates: other nodes have {resource}",
                )
                return cause, True
            which = (
                "no node" if len(taking) == len(s.objects("Node")) else f"no node that takes it ({names_})"
            )
            cause = Cause(
                f"{'one pod' if s.gang else s.who} asks for {amount(asked[resource])} {resource}, but {which} has "
                f"more than {amount(most)}",
                "ask for fewer per pod and use more pods",
            )
            return cause, False
    return None


def surplus_waits(s: Situation) -> Iterator[Suspect]:
    """The gang runs, and members above minAvailable wait."""
    if s.gang is None or not s.whole or not s.unbound or s.ended or not s.bound:
        return
    told = _placement_words(s)
    cause = Cause(
        f"{len(s.unbound)} members above minAvailable {s.minimum} have no place yet",
        "nothing to do: they start when there is room; raise minAvailable if the program needs them all",
    )
    seen = f"{s.held} of {s.gang.size} members placed, {s.minimum} needed; not placed: "
    seen += wording.listed([p.name for p in s.unbound], 4)
    if told:
        seen += f" ({words.short(told[0])})"
    yield note("surplus-waits", Stage.PLACE, cause, seen, rows=("GANG-003",))
