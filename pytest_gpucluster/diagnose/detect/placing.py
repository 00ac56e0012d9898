"""Refused at placement: the pods are there and wait, and the scheduler says of them why."""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from pytest_gpucluster.diagnose.detect.room import SHORT, Refused, amount, why_short
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, POSSIBLE, SURE, fault, note, refusal
from pytest_gpucluster.diagnose.model import Certainty, Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation, requests
from pytest_gpucluster.evidence import fields
from pytest_gpucluster.judge import say
from pytest_gpucluster.requirement import Cause

REASONS: tuple[tuple[str, re.Pattern[str], str, str], ...] = (
    (
        "taint", re.compile(r"(?:untolerated taint|had taint)s?\(?s?\)?\s*(\{[^}]*\})?", re.IGNORECASE),
        "nodes carry a taint that the pods do not tolerate {0}", "add the toleration to every task template",
    ),
    (
        "selector", re.compile(r"(?:node affinity|node selector|NodeAffinity|NodeSelector)(?:/selector)?"),
        "no node matches the nodeSelector or node affinity of the pods",
        "compare it with the labels of the GPU nodes (kubectl get nodes --show-labels)",
    ),
    (
        "cordoned", re.compile(r"(\d+) node\(s\) were unschedulable"), "{0} node(s) are cordoned",
        "uncordon them when they are well (kubectl uncordon), or add nodes",
    ),
    (
        "volume", re.compile(r"(?:unbound immediate PersistentVolumeClaims|persistentvolumeclaim \S+ not found|"
                             r"volume node affinity conflict)", re.IGNORECASE),
        "a volume claim of the pods is not bound, or bound elsewhere", "look at the claims (kubectl get pvc)",
    ),
    (
        "ports", re.compile(r"didn't have free ports"), "a host port of the pods is taken on every node",
        "do not use hostNetwork or hostPort: the pytorch and mpi plugins add their port to every container",
    ),
    (
        "apart", re.compile(r"anti-affinity|topology spread", re.IGNORECASE),
        "anti-affinity or spread constraints of the pods leave no node", "relax them, or add nodes",
    ),
)  # fmt: skip
"""(class, text of the scheduler, cause, fix): why no node takes a pod, other than for want of a resource."""


def refused_at_placement(s: Situation) -> Iterator[Suspect]:
    """Pods exist and wait: the scheduler says which of them has no node, and why."""
    if s.gang is None or s.whole or s.ended or not s.unbound:
        return
    if s.now - min(p.created for p in s.unbound) <= s.patience:
        return
    said = _placement_words(s)
    if not said:
        return
    text, keys = said
    base = f"{say.part(s.held, s.minimum)} members placed; {_numbers(s)}the scheduler says: {text[:240]}"
    stage = Stage.PLACE
    if s.was_whole and s.held:
        yield _lost_member(s, base, text, keys)
        return
    classes = [
        (name, found, cause, fix) for name, pattern, cause, fix in REASONS if (found := pattern.search(text))
    ]
    short = list(dict.fromkeys(SHORT.findall(text)))
    too_large = _too_large(s, short)
    if too_large is not None:
        yield refusal("member-too-large", stage, too_large, base, evidence=keys, rows=("REF-001",))
        return
    for name, found, cause, fix in classes:
        told = next((g for g in found.groups() if g), "") if found.groups() else ""
        filled = " ".join(cause.format(told).split())
        yield fault(
            f"no-node-{name}", stage, Cause(filled, fix), base, _weight(s, name, told, short), evidence=keys,
            where=say.places(s.unbound), look=say.repeat(s.gang),
        )  # fmt: skip
    if short or not classes:
        yield from why_short(s, short, Refused(stage, base, keys))


def best_effort(s: Situation) -> Iterator[Suspect]:
    """Members that ask for nothing wait: the gang's gate does not place them, backfill does, one by one."""
    bare = [p for p in s.unbound if not requests(p.last)]
    if s.gang is None or s.ended or not bare or s.now - min(p.created for p in bare) <= s.silent:
        return
    cause = Cause(
        f"{say.listed([p.name for p in bare], 4)} ask for nothing, not even CPU: the gang does not wait for them and "
        "the scheduler's backfill places them one by one, if at all",
        "give every container of every task requests (a little CPU and memory will do, GPUs where they are used)",
    )
    seen = f"{say.part(s.held, s.minimum)} members placed; {len(bare)} of those that wait have no requests"
    yield fault(
        "best-effort", Stage.PLACE, cause, seen, where=say.places(bare), look=say.repeat(s.gang),
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
    fitting = sum(bool(p.waiting) and p.waiting[-1].reason == "Schedulable" for p in s.unbound)
    if not fitting:
        return ""
    return f"{fitting} of the {len(s.unbound)} waiting pods would fit alone (reason Schedulable); "


def _placement_words(s: Situation) -> tuple[str, tuple[str, ...]] | None:
    """Return the newest reasons that the scheduler gave for the pods that wait now, and their keys."""
    parts: dict[str, str] = {}
    for pod in s.unbound:
        for waiting in pod.waiting[-1:]:
            if waiting.reason != "Schedulable" and "predicated failed, skip" not in waiting.message:
                parts.setdefault(waiting.message or waiting.reason, waiting.key)
        failed = [w for w in s.said_of_pod(pod) if w.reason == "FailedScheduling"]
        for one in failed[-1:] if not pod.waiting else ():
            parts.setdefault(one.message, one.key)
    if s.group is not None:
        for said in s.group.conditions[-2:]:
            if said.type == "Unschedulable=True":
                parts.setdefault(said.message, said.key)
    if s.reading is not None and s.reading.held is not None and not parts:
        for held in s.reading.held.reasons[-2:]:
            parts.setdefault(held.message, held.key)
    if not parts:
        return None
    return " | ".join(list(parts)[:4]), tuple(list(parts.values())[:4])


def _too_large(s: Situation, short: Sequence[str]) -> Cause | None:
    """Return that one pod asks for more than any node has."""
    for resource in short:
        most = max((room.allocatable for room in s.rooms(resource)), default=None)
        asked = max((fields.requested(p.last, resource) for p in s.unbound), default=Fraction(0))
        if most is not None and s.advertised.get(resource) and asked > most:
            return Cause(
                f"one pod asks for {amount(asked)} {resource}, and no node has more than {amount(most)}",
                "ask for fewer a pod and use more pods",
            )
    return None


def _lost_member(s: Situation, base: str, text: str, keys: tuple[str, ...]) -> Suspect:
    gone = say.listed([p.name for p in s.unbound], 4)
    cordoned = [
        line.name for line in s.objects("Node") if fields.sub(line.object, "spec").get("unschedulable")
    ]
    more = f"; cordoned: {say.listed(cordoned, 4)}" if cordoned or "unschedulable" in text else ""
    cause = Cause(
        f"the gang lost a member and there is no place for its replacement {gone}{more}",
        "make room for it (uncordon or add a node, free what took the place); a gang is admitted whole, nobody keeps "
        "it whole: a policy PodEvicted -> RestartJob would start it anew",
    )
    return fault(
        "member-lost",
        Stage.PLACE,
        cause,
        base,
        where=say.places(s.unbound),
        evidence=keys,
        rows=("GANG-009", "GANG-010"),
    )


def surplus_waits(s: Situation) -> Iterator[Suspect]:
    """The gang runs, and members above minAvailable wait."""
    if s.gang is None or not s.whole or not s.unbound or s.ended:
        return
    words = _placement_words(s)
    cause = Cause(
        f"{len(s.unbound)} members above minAvailable {s.minimum} have no place yet",
        "nothing to do: they come when there is room; raise minAvailable if the program needs them all",
    )
    seen = f"{s.held} of {s.gang.size} members placed, {s.minimum} needed; not placed: "
    seen += say.listed([p.name for p in s.unbound], 4)
    if words:
        seen += f" ({words[0][:120]})"
    yield note("surplus-waits", Stage.PLACE, cause, seen, rows=("GANG-003",))
