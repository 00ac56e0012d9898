"""Nodes as a waiting gang sees them: who could take its members, who is closed and why, whose devices are ill."""

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects.pods import FINISHED, PodStory
from pytest_gpucluster.evidence.objects.pods import pods as every_pod
from pytest_gpucluster.judge import vendors

Amounts = Mapping[str, Fraction]

CORDON = "node.kubernetes.io/unschedulable"
SHAPE = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")
"""Fields of a pod that decide which nodes take it."""
OWN_TAINTS = (CORDON, "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints by which Kubernetes repeats what stands elsewhere on a node."""

PRESSURE = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
ILL = re.compile(
    r"xid|not ?healthy|unhealthy|error|fail|lost|fault|critical|degraded|corrupt|down\b|flap|hang|ecc",
    re.IGNORECASE,
)
WELL = re.compile(r"(?<!un)(?<!not)(?<!in)(?:Health|Healthy|Ready|OK|Available|Passed)$", re.IGNORECASE)
"""Types of conditions that are True when all is well."""

SPOT = {
    "cloud.google.com/gke-spot": "gke-spot", "cloud.google.com/gke-preemptible": "gke-preemptible",
    "eks.amazonaws.com/capacityType": "capacityType", "karpenter.sh/capacity-type": "capacity-type",
    "kubernetes.azure.com/scalesetpriority": "scalesetpriority",
}  # fmt: skip
"""Labels by which clouds say that they may take a node back -> how they are called."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """One node and what it has of a resource.

    Attributes:
        shut: why it takes no pod of the job, "" where it does.
        cordoned: somebody closed it.
        fits_selector: whether the pods' nodeSelector and required node affinity let them go there.
    """

    name: str
    capacity: Fraction
    allocatable: Fraction
    used: Fraction
    shut: str
    cordoned: bool
    fits_selector: bool
    line: Line

    @property
    def free(self) -> Fraction:
        """Return what is left, never less than nothing."""
        return max(self.allocatable - self.used, Fraction(0))

    @property
    def ill(self) -> tuple[str, ...]:
        """Return what its conditions complain of, in their own words."""
        return complaints(self.line.object)


def complaints(node: fields.Object) -> tuple[str, ...]:
    """Return the conditions of a node that say that something is wrong with it, in their own words."""
    found = []
    for c in fields.items(node, "status", "conditions"):
        kind, status = str(c.get("type") or ""), str(c.get("status") or "")
        told = " ".join(str(c.get(key) or "") for key in ("reason", "message"))
        if kind == "Ready":
            continue
        bad = status == "True" and (
            kind in PRESSURE or (not WELL.search(kind) and ILL.search(f"{kind} {told}"))
        )
        if bad or (status == "False" and WELL.search(kind)):
            found.append(f"{kind}={status}: {told.strip()}")
    return tuple(found)


def asked_by_pods(evidence: Evidence) -> Mapping[str, Amounts]:
    """Return what each pod that holds a place asks for, by uid."""
    return evidence.derived(_asked_by_pods)


def _asked_by_pods(evidence: Evidence) -> Mapping[str, Amounts]:
    return {
        pod.uid: fields.demands(pod.last)
        for pod in every_pod(evidence)
        if pod.bound is not None and pod.deleted is None and pod.phase not in FINISHED
    }


def in_use(evidence: Evidence) -> Mapping[str, Amounts]:
    """Return what the pods on each node ask for, by node and resource."""
    return evidence.derived(_in_use)


def _in_use(evidence: Evidence) -> Mapping[str, Amounts]:
    used: dict[str, dict[str, Fraction]] = {}
    asked_by = asked_by_pods(evidence)
    for pod in every_pod(evidence):
        if pod.uid in asked_by:
            room = used.setdefault(pod.node, {})
            for resource, asked in asked_by[pod.uid].items():
                room[resource] = room.get(resource, Fraction(0)) + asked
            room["pods"] = room.get("pods", Fraction(0)) + 1
    return used


def machines(s: Situation, resource: str) -> tuple[Machine, ...]:
    """Return every node that has, or should have, some of a resource."""
    if resource not in s.reckoned:
        s.reckoned[resource] = _machines(s, resource)
    found: tuple[Machine, ...] = s.reckoned[resource]
    return found


def _machines(s: Situation, resource: str) -> tuple[Machine, ...]:
    used = in_use(s.evidence)
    specs = [p.last for p in s.unbound] or list(s.templates) or [{}]
    specs = list({json.dumps([fields.sub(one, "spec").get(key) for key in SHAPE], default=str): one
                  for one in reversed(specs)}.values())[::-1]  # fmt: skip
    found = []
    for line in s.objects("Node"):
        status = fields.sub(line.object, "status")
        has = [
            fields.quantity(fields.sub(status, part).get(resource, 0)) for part in ("capacity", "allocatable")
        ]
        if any(has):
            fitting = [one for one in specs if selects(one, line.object)]
            told = [closed(line.object, one) for one in fitting or specs[:1]]
            found.append(
                Machine(
                    line.name, has[0], has[1], used.get(line.name, {}).get(resource, Fraction(0)),
                    told[0] if all(told) else "",
                    bool(fields.sub(line.object, "spec").get("unschedulable")), bool(fitting), line,
                )
            )  # fmt: skip
    return tuple(found)


def closed(node: fields.Object, pod: fields.Object) -> str:
    """Return why a node takes no such pod whatever is free there: cordoned, not Ready, tainted; "" where it does."""
    if fields.sub(node, "spec").get("unschedulable"):
        return "is cordoned"
    ready = fields.condition(node, "Ready")
    if ready.get("status", "True") != "True":
        why = ": ".join(str(ready[k]) for k in ("reason", "message") if ready.get(k))
        return f"is not Ready ({why or ready.get('status')})"
    for taint in fields.items(node, "spec", "taints"):
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not _tolerated(pod, taint):
            if taint.get("key") == CORDON:
                return "is cordoned"
            return f"carries the taint {named(taint)}, which the pods do not tolerate"
    return ""


def named(taint: fields.Object) -> str:
    """Return a taint as kubectl writes it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def _tolerated(pod: fields.Object, taint: fields.Object) -> bool:
    for one in fields.items(pod, "spec", "tolerations"):
        if one.get("effect") not in (None, "", taint.get("effect")):
            continue
        exists = one.get("operator") == "Exists"
        if exists and not one.get("key"):
            return True
        if one.get("key") == taint.get("key") and (
            exists or str(one.get("value") or "") == str(taint.get("value") or "")
        ):
            return True
    return False


def selects(pod: fields.Object, node: fields.Object) -> bool:
    """Report whether nodeSelector and required node affinity of a pod let it go to a node."""
    return not unmet(pod, node)


def unmet(pod: fields.Object, node: fields.Object) -> str:
    """Return what a pod asks of its node's labels and does not find there, "" where all is there."""
    labels = {str(k): str(v) for k, v in fields.sub(node, "metadata", "labels").items()}
    for key, value in fields.sub(pod, "spec", "nodeSelector").items():
        if labels.get(str(key)) != str(value):
            return f"{key}={value}"
    needed = fields.sub(
        pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = fields.items(needed, "nodeSelectorTerms")
    failed = []
    for term in terms:
        missing = next((e for e in fields.items(term, "matchExpressions") if not _holds(e, labels)), None)
        own = {"metadata.name": fields.text(node, "metadata", "name")}
        missing = missing or next((e for e in fields.items(term, "matchFields") if not _holds(e, own)), None)
        if missing is None:
            return ""
        values = missing.get("values")
        listed = ", ".join(map(str, values)) if isinstance(values, list | tuple) else ""
        failed.append(f"{missing.get('key')} {missing.get('operator')} {listed}".strip())
    return " or ".join(failed)


def _holds(expression: fields.Object, labels: Mapping[str, str]) -> bool:
    key, operator = str(expression.get("key")), expression.get("operator")
    values = expression.get("values")
    wanted = [str(v) for v in values] if isinstance(values, list | tuple) else []
    has = labels.get(key)
    if operator == "In":
        return has in wanted
    if operator == "NotIn":
        return has not in wanted
    if operator == "Exists":
        return has is not None
    if operator == "DoesNotExist":
        return has is None
    if operator in ("Gt", "Lt"):
        mine, limit = _whole(has), _whole(next(iter(wanted), None))
        return mine is not None and limit is not None and (mine > limit if operator == "Gt" else mine < limit)
    return True


def _whole(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"-?[0-9]{1,18}", text) else None


def lacking(s: Situation) -> list[fields.Object]:
    """Return the specifications of the needed members that have no place yet."""
    needed = max(s.minimum - s.held, 0)
    waiting = [p.last for p in s.unbound] or (list(s.templates) if not s.pods else [])
    return sorted(waiting, key=_size, reverse=True)[-needed:] if needed else []


def _size(spec: fields.Object) -> Fraction:
    return sum((v for r, v in fields.demands(spec).items() if "/" in r), Fraction(0))


def fits(nodes: Iterable[Machine], needed: Iterable[fields.Object], resource: str) -> bool:
    """Report whether members find room for a resource on nodes, the largest first."""
    free = sorted((n.free for n in nodes), reverse=True)
    for asked in sorted((fields.demands(one).get(resource, Fraction(0)) for one in needed), reverse=True):
        place = next((i for i, room in enumerate(free) if room >= asked), None)
        if place is None:
            return False
        free[place] -= asked
        free.sort(reverse=True)
    return True


def scarce(s: Situation) -> tuple[str, ...]:
    """Return the extended resources that the waiting members ask for."""
    specs = [p.last for p in s.unbound] or [p.last for p in s.pods] or list(s.templates)
    asked = dict.fromkeys(r for spec in specs for r in fields.demands(spec) if "/" in r)
    return tuple(asked) or tuple(r for r in s.wanted if "/" in r)


def everywhere(s: Situation) -> bool:
    """Report whether the evidence has the pods of all namespaces, so that what is free on a node is known."""
    if s.evidence.spans:
        return True
    if isinstance(s.evidence.header.get("looked"), Mapping):
        return not any(line.data.get("case") == "collect:Pod" for line in s.evidence.responses())
    return any(pod.namespace in ("kube-system", "volcano-system") for pod in every_pod(s.evidence))


def unhealthy(pods: Iterable[PodStory]) -> list[tuple[PodStory, str, str, str]]:
    """Return (pod, resource, device, health) of devices that pods hold and that their kubelet calls ill."""
    found = []
    for pod in pods:
        if pod.deleted is not None or pod.phase in FINISHED:
            continue
        for part in ("initContainerStatuses", "containerStatuses"):
            for status in fields.items(pod.last, "status", part):
                for held in fields.items(status, "allocatedResourcesStatus"):
                    found += [
                        (pod, str(held.get("name")), str(one.get("resourceID")), str(one.get("health")))
                        for one in fields.items(held, "resources")
                        if one.get("health") not in (None, "Healthy")
                    ]
    return found


def check(resource: str, node: str) -> str:
    """Return how to look at the devices of a node, in the words of their vendor."""
    return vendors.check(resource, node)
