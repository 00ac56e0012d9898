"""NUMA-002, NUMA-003, NUMA-006: what fits no NUMA node is rejected, what fits is aligned, devices tell theirs."""

from collections.abc import Iterable, Sequence

from pytest_gpucluster.evidence.hardware import numa_trials as reading
from pytest_gpucluster.evidence.hardware.numa_trials import RAN, REJECTED, Trial
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.numa import numa_room, shared
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

MISFIT = "that asks for more GPUs than a NUMA node has"
FITS = "that fits one NUMA node"


@subjects.judge
def misfit_rejected(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge NUMA-002."""
    told = shared.of(evidence, given)
    required = (
        f"a pod {MISFIT}{'' if told.share is None else f' ({told.share})'} and no more than the node has is "
        "rejected with TopologyAffinityError and never runs"
    )
    other = shared.undeclared(told, required, single=True)
    if other is not None:
        return other
    tried = shared.misfits(told, reading.trials(evidence, given))
    ran = [t for t in tried if t.outcome == RAN]
    if ran:
        return _ran(evidence, required, tried, ran, told)
    nothing = shared.undecided(tried, required, MISFIT)
    if nothing is not None:
        return nothing
    odd = shared.refused_otherwise(tried)
    if odd:
        return wording.finding(
            Verdict.INCONCLUSIVE,
            required,
            wording.listed([shared.why_refused(t) for t in odd], 4),
            where=shared.where(odd),
            causes=(shared.SHORTAGE,),
            evidence=shared.keys(odd),
            repeat=shared.repeat(odd),
        )
    gap = _unseen(evidence, tried)
    if gap:
        return wording.finding(Verdict.INCONCLUSIVE, required, gap, evidence=shared.keys(tried))
    refused = [t for t in tried if t.topology]
    open_ = [t for t in tried if t.outcome == reading.OPEN]
    text = f"rejected with TopologyAffinityError, no container started: {shared.listed(refused)}"
    if open_:
        text += f"; not decided: {shared.listed(open_)}"
    return wording.finding(
        Verdict.PASS,
        required,
        text,
        where=shared.where(refused),
        evidence=shared.keys(refused),
        numbers=_numbers(told, refused),
        repeat=shared.repeat(refused),
        facts={"rejected": {t.node: t.asked for t in refused}},
    )


def _ran(
    evidence: Evidence, required: str, tried: Sequence[Trial], ran: Sequence[Trial], told: shared.Terms
) -> Finding:
    causes = dict.fromkeys(cause for trial in ran for cause in shared.causes_of_running(evidence, trial))
    return shared.violation(
        required,
        f"{len(ran)} of {wording.count(len(tried), 'such pod')} ran: {shared.listed(ran)}",
        ran,
        causes=tuple(causes),
        numbers=_numbers(told, ran),
        facts={"ran": {t.node: t.asked for t in ran}},
    )


def _numbers(told: shared.Terms, tried: Iterable[Trial]) -> tuple[Number, ...]:
    asked = max((trial.asked for trial in tried), default=None)
    if asked is None or told.share is None:
        return ()
    return (Number("GPUs that the pod asks for", asked, told.resource, told.share, "GPUs of one NUMA node"),)


def _unseen(evidence: Evidence, tried: Iterable[Trial]) -> str:
    """Return where the watch of pods was not in sync between a rejection and the end: a pod could have run there."""
    for trial in tried:
        for start, end in evidence.gaps("Pod", trial.pod.created, trial.pod.deleted or evidence.end):
            span = f"from t={start:.2f} s to {end:.2f} s"
            return f"the watch of pods was not in sync {span}: {trial.title} may have run then"
    return ""


@subjects.judge
def on_one_numa_node(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge NUMA-003."""
    told = shared.of(evidence, given)
    required = "a pod that fits one NUMA node is admitted, and all its devices are on one NUMA node"
    other = shared.undeclared(told, required)
    if other is not None:
        return other
    every = reading.trials(evidence, given)
    tried = shared.fitting(told, every)
    broken = _broken(told, required, every, tried)
    if broken is not None:
        return broken
    nothing = shared.undecided(tried, required, FITS)
    if nothing is not None:
        return nothing
    ran = [t for t in tried if t.outcome == RAN]
    left = [t for t in tried if t.outcome == REJECTED or (t.outcome == reading.OPEN and t.node)]
    if left or not ran:
        return _not_admitted(told, required, every, left)
    return _aligned(required, ran)


def _broken(
    told: shared.Terms, required: str, every: Sequence[Trial], tried: Sequence[Trial]
) -> Finding | None:
    """Return the violation that was seen: devices of several NUMA nodes, or a pod that fits and was turned away."""
    apart = [t for t in tried if len(t.nodes) > 1]
    if apart:
        lies = any(t.lies for t in apart)
        return shared.violation(
            required,
            f"{len(apart)} of {wording.count(len(tried), 'pod')} hold devices of several NUMA nodes: "
            f"{shared.listed(apart)}" + (f"; {_lies(apart)}" if lies else ""),
            apart,
            causes=(shared.BUS, shared.POLICY) if lies else (shared.POLICY, shared.ONE_NUMA),
            facts={"apart": {t.pod.name: t.devices for t in apart}},
        )
    wronged = [t for t in tried if t.topology and numa_room.had_room(told, every, t)]
    if wronged:
        return _wronged(required, wronged)
    denied = [t for t in tried if numa_room.denied(t, told.resource)]
    if denied:
        return shared.violation(
            required,
            f"{len(denied)} of {wording.count(len(tried), 'pod')} that fit one NUMA node were rejected although "
            f"enough devices were free: {wording.listed([shared.why_refused(t) for t in denied], 4)}",
            denied,
            causes=(shared.NO_DEVICES, shared.SHORTAGE),
        )
    return None


def _not_admitted(
    told: shared.Terms, required: str, every: Sequence[Trial], left: Sequence[Trial]
) -> Finding:
    """Say what keeps the row open where a pod that fits was not admitted, and nobody is known to have wronged it."""
    rooms = {t.pod.uid: room for t, room in numa_room.split(told, every)}
    texts = [_why_left(t, rooms.get(t.pod.uid)) for t in left]
    causes = dict.fromkeys(shared.FRAGMENTED if t.pod.uid in rooms else shared.SHORTAGE for t in left)
    return _undecided(
        required, f"not every pod {FITS} was admitted: {wording.listed(texts, 4)}", left, *causes
    )


def _why_left(trial: Trial, room: Sequence[int] | None) -> str:
    if room is not None:
        return numa_room.told_split(trial, room)
    return (
        shared.why_refused(trial)
        if trial.outcome == REJECTED
        else f"{trial.title} was not decided by its kubelet"
    )


def _lies(tried: Iterable[Trial]) -> str:
    """Return of which devices plugin and machine tell different NUMA nodes."""
    told = [
        f"for {name} of {t.pod.name} the plugin reports NUMA node {said}, the machine {at}"
        for t in tried
        for name, (said, at) in t.lies.items()
    ]
    return "; ".join(told[:4]) + (f" and {len(told) - 4} more" if len(told) > 4 else "")


def _undecided(required: str, text: str, tried: Sequence[Trial], *causes: Cause) -> Finding:
    return wording.finding(
        Verdict.INCONCLUSIVE,
        required,
        text,
        where=shared.where(tried),
        causes=causes,
        evidence=shared.keys(tried),
    )


def _aligned(required: str, ran: Sequence[Trial]) -> Finding:
    """Judge pods that ran, none of which is known to straddle."""
    lying = [t for t in ran if t.lies]
    if lying:
        text = f"{_lies(lying)}: the kubelet aligns by wrong NUMA nodes"
        return _undecided(required, text, lying, shared.BUS)
    unknown = [t for t in ran if not t.known or not t.nodes]
    if unknown:
        text = f"the NUMA node of the devices is not known for {shared.listed(unknown)}"
        return _undecided(required, text, unknown, shared.NO_TOPOLOGY)
    several = [t for t in ran if t.asked > 1]
    served = sorted({node for trial in several for node in trial.nodes})
    if len(served) < shared.TWO:
        text = (
            f"{wording.count(len(several), 'pod')} of several devices lie on NUMA node {served[0]} alone: nothing "
            "shows that the other one serves pods too, as on a machine with one NUMA node"
            if several
            else "no pod of several devices ran: a single device is always on one NUMA node"
        )
        return _undecided(required, text, ran, *((shared.ONE_NUMA,) if several else ()))
    text = (
        f"{wording.count(len(ran), 'pod')} hold devices of one NUMA node each ({', '.join(map(str, served))})"
    )
    return wording.finding(
        Verdict.PASS,
        required,
        f"{text}: {shared.listed(ran)}",
        where=shared.where(ran),
        evidence=shared.keys(ran),
        numbers=(
            Number(
                "NUMA nodes that the devices of one pod lie on",
                max(len(t.nodes) for t in ran),
                "NUMA nodes",
                1,
                "required",
            ),
        ),
        facts={"devices": {t.pod.name: t.devices for t in ran}},
    )


def _wronged(required: str, wronged: Sequence[Trial]) -> Finding:
    return shared.violation(
        required,
        f"{shared.listed(wronged)} rejected with TopologyAffinityError although one NUMA node had enough free devices",
        wronged,
        causes=(shared.ONE_NUMA, shared.SHORTAGE),
    )


@subjects.judge
def topology_reported(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge NUMA-006.

    A rejection for topology proves that the node's devices carry NUMA nodes: those that carry none are never rejected.
    """
    told = shared.of(evidence, given)
    required = "the device plugin of every GPU node reports the NUMA node of each device"
    other = shared.undeclared(told, required)
    if other is not None:
        return other
    tried = reading.trials(evidence, given)
    holding = [t for t in tried if t.reports]
    lying = [t for t in holding if t.lies]
    if lying:
        return shared.violation(required, _lies(lying), lying, causes=(shared.BUS,))
    without = [t for t in holding if None in t.reports.values()]
    if without:
        few = [t for t in without if not t.unreported]
        text = "some devices" if few else "no device"
        return shared.violation(
            required,
            f"{text} of {wording.listed(sorted({t.node for t in without}), 4)} "
            f"{'are' if few else 'is'} reported {'without' if few else 'with'} a NUMA node: {shared.listed(without)}",
            without,
            causes=(shared.NO_TOPOLOGY,),
        )
    placed = {t.node for t in holding if not t.unreported}
    large = [t for t in shared.misfits(told, tried) if t.outcome == RAN and t.node not in placed]
    blind = [t for t in large if _strict(evidence, t)]
    if blind:
        return wording.finding(
            Verdict.FAIL,
            required,
            f"{shared.listed(blind)} ran although the kubelet reports {shared.SINGLE}: none of its devices has a "
            "NUMA node",
            where=shared.where(blind),
            causes=(shared.NO_TOPOLOGY, shared.NOT_RESTARTED),
            evidence=shared.keys(blind),
            repeat=shared.repeat(blind),
        )
    return _reported(required, tried, holding)


def _strict(evidence: Evidence, trial: Trial) -> bool:
    said = reading.by_kubelet(evidence).get(trial.node)
    return said is not None and said.policy == shared.SINGLE


def _reported(required: str, tried: Sequence[Trial], holding: Sequence[Trial]) -> Finding:
    shown = {t.node: t for t in (*[t for t in tried if t.topology and t.fitted], *holding)}
    nodes = {t.node for t in tried if t.node}
    silent = sorted(nodes - set(shown))
    if not shown or silent:
        text = f"nothing shows this on {wording.listed(silent, 4)}" if silent else "no pod held a device"
        return wording.finding(Verdict.INCONCLUSIVE, required, text, evidence=shared.keys(tried))
    return wording.finding(
        Verdict.PASS,
        required,
        f"devices of {wording.listed(sorted(shown), 4)} have NUMA nodes",
        where=shared.where(shown.values()),
        evidence=shared.keys(shown.values()),
        numbers=(
            Number(
                "nodes whose devices carry NUMA nodes",
                len(shown),
                "nodes",
                len(nodes),
                "nodes that were tried",
            ),
        ),
    )


def every_node_tried(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the scenario came to try the nodes that it chose; a recording chose whatever it shows."""
    name = "nodes were tried"
    chosen = given.get("tried")
    if not isinstance(chosen, list | tuple):
        return wording.presupposed(name, held=True, observed="a recording")
    if not chosen:
        return wording.presupposed(
            name,
            held=False,
            observed="no node offers enough GPUs for a pod too large for one NUMA node",
            causes=(wording.TOO_FEW_OFFERED,),
        )
    vain = subjects.timed_out(evidence)
    if vain is not None:
        return wording.presupposed(
            name, held=None, observed=f"waited in vain: {vain[0]}", evidence=(vain[1],)
        )
    return wording.presupposed(
        name,
        held=True,
        observed=f"{wording.count(len(chosen), 'node')}: {wording.listed(list(map(str, chosen)), 4)}",
    )
