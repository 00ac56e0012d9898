"""INV-005: the training queue exists, takes work, and promises no more than the cluster has."""

from collections.abc import Mapping
from fractions import Fraction

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import node_status
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.inventory import flavors, queue_promises
from pytest_gpucluster.plain import names, quantities
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

REQUIRED = (
    "the training queue exists and is Open (Volcano) or Active (Kueue), and its quota of each resource is no larger "
    "than what the nodes have allocatable"
)

CLUSTER_QUEUE = "ClusterQueue"
QUEUES = ("Queue", CLUSTER_QUEUE)

PENDING = "pending promotion: "
"""Beginning of what is said of a queue that is closed because the profile declares it held."""

ABSENT = Cause(
    "the queue named in the profile does not exist, or has another name",
    "create it (kubectl apply -f queue.yaml) or correct `queue` in the profile",
)
CLOSED = Cause(
    "the queue is closed: it admits no Job, and waiting Jobs get no pods",
    "open it (vcctl queue operate -a open -n QUEUE, or a Command OpenQueue)",
)
NO_STATE = Cause(
    "the queue controller has not set a state: it is not running, or has not come to it yet",
    "check vc-controller-manager (kubectl -n volcano-system get pods)",
)
INACTIVE = Cause(
    "Kueue does not report the ClusterQueue as Active: a flavor or an admission check is missing, or the "
    "queue is on hold",
    "read its condition Active (kubectl describe clusterqueue) and create what it names",
)
TOO_MUCH = Cause(
    "the quota promises more than the cluster has: gangs within quota wait forever, or start in part",
    "lower the quota to what the nodes have allocatable, or bring the missing nodes or devices back",
)


@subjects.judge
def queue_fits(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge INV-005."""
    chosen = _chosen(evidence, given)
    wanted = _wanted(given)
    found = [_judge(evidence, given, line) for line in chosen]
    if not chosen:
        found.append(_absent(evidence, given, wanted))
    behind = _behind_kueue(given)
    if behind and behind not in {line.name for line in chosen if line.kind == CLUSTER_QUEUE}:
        found.append(_absent(evidence, {**given, "scheduler": "kueue"}, behind))
    # A scheduler without queues may stand beside a Kueue that has one: what applies counts.
    order = (
        Verdict.FAIL, Verdict.ENVIRONMENT, Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.NOT_APPLICABLE,
    )  # fmt: skip
    # Of two queues one that is held is not shown by the other one.
    return min(found, key=lambda one: order.index(one.verdict) if not _pends(one) else 2.5)


def _pends(finding: Finding) -> bool:
    return finding.observed.startswith(PENDING)


def _wanted(given: subjects.Given) -> str:
    """Return the name of the declared queue; under Kueue of its ClusterQueue or LocalQueue where one is declared."""
    kueue = fields.sub(given, "kueue") if given.get("scheduler") == "kueue" else {}
    return str(kueue.get("cluster_queue") or kueue.get("local_queue") or given.get("queue") or "")


def _behind_kueue(given: subjects.Given) -> str:
    """Return the ClusterQueue that the profile names, "" where it names none."""
    return fields.text(given, "kueue", "cluster_queue")


def _chosen(evidence: Evidence, given: subjects.Given) -> list[Line]:
    """Return the last line of the queue that the profile names; where none is named, of the queues that work went into.

    Under Kueue the profile names a LocalQueue, which points to its ClusterQueue, or the ClusterQueue itself; it may
    do so beside the queue of another scheduler.
    """
    newest = {
        (line.kind, line.name): line for kind in (*QUEUES, "LocalQueue") for line in evidence.of_kind(kind)
    }
    there = {place: line for place, line in newest.items() if line.type != "DELETED"}
    wanted = _wanted(given)
    local = there.get(("LocalQueue", wanted))
    if local is not None:
        wanted = fields.text(local.object, "spec", "clusterQueue")
    used = {wanted} if wanted else _used(evidence)
    behind = there.get((CLUSTER_QUEUE, _behind_kueue(given)))
    chosen = [line for (kind, name), line in there.items() if kind in QUEUES and name in used]
    return chosen if behind is None or behind in chosen else [*chosen, behind]


def _used(evidence: Evidence) -> set[str]:
    """Return the names of the queues that gangs of the evidence were submitted to or admitted by."""
    found = {fields.text(line.object, "spec", "queue") for line in evidence.of_kind("PodGroup")}
    found |= {
        fields.text(line.object, "status", "admission", "clusterQueue")
        for line in evidence.of_kind("Workload")
    }
    return found - {""}


def _absent(evidence: Evidence, given: subjects.Given, wanted: str) -> Finding:
    declared = str(given.get("scheduler") or "volcano")
    if declared in ("default-scheduler", "native"):
        text = f"the declared scheduler {declared} has no queues"
        return wording.finding(Verdict.NOT_APPLICABLE, REQUIRED, text)
    missing = [
        line
        for line in evidence.responses()
        if line.data.get("case") in ("api:Queue", "api:ClusterQueue")
        and fields.number(line.data, "code") == 404
    ]
    if missing:
        return wording.finding(
            Verdict.FAIL,
            REQUIRED,
            f"the API serves no queues, although the profile declares {declared}",
            violation=True,
            causes=(wording.NOT_INSTALLED,),
            evidence=(missing[0].key,),
            repeat=("kubectl api-resources | grep -i queue",),
        )
    if not wanted:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, "no queue is declared, and no work was seen in any queue"
        )
    if not any(node_status.listed(evidence, kind) for kind in QUEUES):
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, "the watch of queues was not in sync at the end"
        )
    kinds = (CLUSTER_QUEUE,) if declared == "kueue" else QUEUES
    told = given.get("queues")
    listed = (
        [str(name) for kind in kinds for name in told.get(kind) or ()] if isinstance(told, Mapping) else []
    )
    there = sorted({*listed, *(line.name for kind in kinds for line in evidence.of_kind(kind))})
    near = names.nearest(wanted, there)
    hint = f"; did you mean {near!r}?" if near else ""
    others = (
        f"; there are: {wording.listed(there)}" if there else "; no queue exists" if told is not None else ""
    )
    return wording.finding(
        Verdict.FAIL,
        REQUIRED,
        f"there is no queue {wanted!r}{hint}{others}",
        violation=True,
        where=(f"{CLUSTER_QUEUE if declared == 'kueue' else 'Queue'}/{wanted}",),
        causes=(ABSENT,),
        repeat=(
            "kubectl get clusterqueues,localqueues -A"
            if declared == "kueue"
            else "kubectl get queues.scheduling.volcano.sh",
        ),
    )


def _judge(evidence: Evidence, given: subjects.Given, line: Line) -> Finding:
    title = f"{line.kind}/{line.name}"
    repeat = (
        f"kubectl get {line.kind.lower()} {line.name} -o yaml",
        "kubectl describe nodes | grep -A8 ^Allocatable",
    )
    state, cause = _state(line)
    held = bool(given.get("queue_held")) and cause is not None and _is_held(line)
    if cause is not None and not held:
        return wording.finding(
            Verdict.FAIL,
            REQUIRED,
            f"{title} is {state}",
            violation=True,
            where=(title,),
            causes=(cause,),
            evidence=(line.key,),
            repeat=repeat,
        )
    before = _shut_before(evidence, line)
    if before is not None and not held:
        return _shut_for_a_time(title, before, line, repeat)
    found = node_status.machines(evidence)
    promised = list(queue_promises.promises(line))
    keys = (line.key, *(m.line.key for m in found[:4]))
    if not found or not node_status.listed(evidence, "Node"):
        text = f"{title} is {state}; the nodes' resources were not seen"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, evidence=keys)
    unread = queue_promises.unread(line, promised, found)
    if unread:
        text = f"{title} is {state}; not valid amounts: {wording.listed(unread, 4)}"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, evidence=keys, repeat=repeat)
    above = [p for p in promised if p.amount > node_status.total(found, p.resource)]
    numbers = tuple(
        Number(
            f"{p.field} of {line.name}", float(p.amount), p.resource, float(node_status.total(found, p.resource)),
            f"allocatable of {len(found)} nodes",
        )
        for p in above or promised
    )  # fmt: skip
    if above:
        parts = [
            f"{p.field} {p.text} {p.resource}, allocatable {_show(node_status.total(found, p.resource))}"
            for p in above
        ]
        having = [m.name for m in found if any(m.capacity.get(p.resource) for p in above)]
        return wording.finding(
            Verdict.FAIL,
            REQUIRED,
            f"{title} is {state} and promises more than the nodes have: {'; '.join(parts)}"
            + (f" ({wording.listed(having, 6)})" if having else ""),
            violation=True,
            where=(title,),
            causes=(TOO_MUCH,),
            evidence=keys,
            numbers=numbers,
            repeat=repeat,
        )
    doubts = flavors.doubts(evidence, given, line, found)
    if doubts:
        broken = not doubts[0].open_
        told = [one for one in doubts if not (broken and one.open_)]
        return wording.finding(
            Verdict.FAIL if broken else Verdict.INCONCLUSIVE,
            REQUIRED,
            f"{title} is {state}: {wording.listed([one.text for one in told], 4)}",
            violation=broken,
            where=(title,),
            causes=tuple(dict.fromkeys(one.cause for one in told)),
            evidence=keys,
            numbers=numbers,
            repeat=(
                *repeat,
                *(("kubectl get resourceflavors -o yaml",) if line.kind == CLUSTER_QUEUE else ()),
            ),
        )
    fits = [
        f"{p.field} {p.text} of {_show(node_status.total(found, p.resource))} {p.resource}" for p in promised
    ]
    bound = f"its quota fits: {', '.join(fits)}" if fits else "it has no quota: the cluster limits it"
    text = f"{title} is {state}; {bound}"
    if held:
        # That it is closed is as declared; that it is open can be shown only when it is.
        return wording.finding(
            Verdict.NOT_APPLICABLE, REQUIRED, f"{PENDING}{text}", evidence=keys, numbers=numbers
        )
    return wording.finding(Verdict.PASS, REQUIRED, text, evidence=keys, numbers=numbers, where=(title,))


def _state(line: Line) -> tuple[str, Cause | None]:
    """Return (the state in words, why it takes no work; None where it does)."""
    if line.kind == "Queue":
        state = fields.text(line.object, "status", "state")
        if state == "Open":
            return state, None
        return (state, CLOSED) if state else ("without a state", NO_STATE)
    active = fields.condition(line.object, "Active")
    held = fields.text(line.object, "spec", "stopPolicy")
    if str(active.get("status")) == "True" and held in ("", "None"):
        return "Active", None
    why = active.get("reason") or (f"stopPolicy {held}" if held else "no condition Active")
    return f"not Active ({why})", INACTIVE


def _is_held(line: Line) -> bool:
    """Report whether a queue is closed by whoever operates it, and not for want of something."""
    if line.kind == "Queue":
        return fields.text(line.object, "status", "state") in ("Closed", "Closing")
    active = fields.condition(line.object, "Active")
    return fields.text(line.object, "spec", "stopPolicy") not in ("", "None") and (
        str(active.get("status")) == "True" or active.get("reason") in (None, "Stopped")
    )


def _shut_before(evidence: Evidence, line: Line) -> Line | None:
    """Return the queue as it was when it took no work for a time, None where it always took some.

    A queue that has just been made has no state yet, or is not active yet: that is not counted.
    """
    open_before = False
    for seen in evidence.history(line.uid):
        _, cause = _state(seen)
        if cause is None:
            open_before = True
        elif seen.type != "DELETED" and (open_before or cause is CLOSED):
            return seen
    return None


def _shut_for_a_time(title: str, before: Line, now: Line, repeat: tuple[str, ...]) -> Finding:
    state, cause = _state(before)
    return wording.finding(
        Verdict.FAIL,
        REQUIRED,
        f"{title} was {state} for a time (at t={before.t:.1f} s), and is {_state(now)[0]}",
        violation=True,
        where=(title,),
        causes=(cause,) if cause is not None else (),
        evidence=(before.key, now.key),
        repeat=repeat,
    )


def _show(amount: Fraction) -> str:
    return quantities.format_quantity(amount)


def nodes_in_service(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the quota fits the nodes that are Ready and not cordoned too: else more is promised than is there."""
    name = "enough nodes are in service"
    found = node_status.machines(evidence)
    serving = [m for m in found if m.ready is not False and not m.cordoned]
    out = [f"{m.name} ({m.state})" for m in found if m.state]
    for line in _chosen(evidence, given):
        for promise in queue_promises.promises(line):
            now = node_status.total(serving, promise.resource)
            if promise.amount > now:
                text = (
                    f"{line.name} promises {promise.text} {promise.resource}, nodes in service have {_show(now)}; "
                    f"out of service: {wording.listed(out) or 'none'}"
                )
                return wording.presupposed(name, held=False, observed=text, evidence=(line.key,))
        for share in flavors.shares(line.object) if line.kind == CLUSTER_QUEUE else ():
            flavor = flavors.flavor_of(evidence, share.flavor)
            own = [] if flavor is None else flavors.nodes_of(flavor.object, serving)
            now = node_status.total(own, share.resource)
            if flavor is not None and share.amount > now:
                text = (
                    f"{line.name} promises {share.text}, its nodes in service have {_show(now)}; out of service: "
                    f"{wording.listed(out) or 'none'}"
                )
                return wording.presupposed(name, held=False, observed=text, evidence=(line.key, flavor.key))
    return wording.presupposed(
        name, held=True, observed=f"{len(serving)} of {len(found)} nodes are in service"
    )
