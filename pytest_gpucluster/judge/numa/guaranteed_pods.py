"""NUMA-007: alignment holds for pods with init containers and whole CPUs, which have the QoS and CPUs declared."""

from collections.abc import Sequence

from pytest_gpucluster.evidence.hardware import numa_trials as reading
from pytest_gpucluster.evidence.hardware import pod_devices
from pytest_gpucluster.evidence.hardware.numa_trials import RAN, Trial
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.numa import numa_room
from pytest_gpucluster.judge.numa.shared import (
    BUS,
    ONE_NUMA,
    POLICY,
    SHORTAGE,
    causes_of_running,
    keys,
    listed,
    of,
    refused_otherwise,
    undecided,
    undeclared,
    violation,
    where,
    why_refused,
)
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

CHANGED = Cause(
    "something changed the pod during its creation: a LimitRange, a mutating webhook, the profile's overlay",
    "compare the pod in the cluster with its manifest; make requests and limits of CPU and memory equal in every "
    "container",
)
CPU_POLICY = Cause(
    "the node's CPU Manager does not give pods whole CPUs of their own",
    "set cpuManagerPolicy: static with a CPU reservation in the KubeletConfiguration, drain the node, delete "
    "/var/lib/kubelet/cpu_manager_state and restart the kubelet",
)
NOT_GUARANTEED = Cause(
    "only Guaranteed pods that ask for whole CPUs get CPUs of their own",
    "give every container of the pod equal requests and limits of CPU and memory, with a whole number of CPUs",
)


@subjects.judge
def holds_for_training_pods(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge NUMA-007."""
    told = of(evidence, given)
    declared = fields.sub(given, "numa")
    required = "a pod with an init container and whole CPUs is rejected if it fits no NUMA node, and aligned otherwise"
    for key, text in (("qos", "has QoS class {}"), ("cpus", "gets {} CPUs")):
        if declared.get(key):
            required += f"; it {text.format(declared[key])}"
    other = undeclared(told, required, single=True)
    if other is not None:
        return other
    tried = [t for t in reading.trials(evidence, given) if reading.init_containers(t.pod.last, told.resource)]
    share = told.share
    large = [t for t in tried if share is not None and t.asked > share]
    small = [t for t in tried if share is not None and t.asked <= share]
    parts = [_rejected(evidence, required, large), _aligned(required, small, told.resource)]
    parts += _as_declared(evidence, required, small, declared)
    worst = wording.gravest(parts)
    if worst.verdict is not Verdict.PASS:
        return worst
    return wording.finding(
        Verdict.PASS,
        required,
        "; ".join(part.observed for part in parts),
        where=where(tried),
        evidence=keys(tried),
        numbers=tuple(number for part in parts for number in part.numbers),
        facts={"devices": {t.pod.name: t.devices for t in small}},
    )


def _rejected(evidence: Evidence, required: str, large: Sequence[Trial]) -> Finding:
    ran = [t for t in large if t.outcome == RAN]
    if ran:
        return violation(
            required,
            f"it ran, or its init container did, although it fits no NUMA node: {listed(ran)}",
            ran,
            causes=causes_of_running(evidence, ran[0]),
        )
    nothing = undecided(large, required, "with an init container that fits no NUMA node")
    if nothing is not None:
        return nothing
    odd = refused_otherwise(large)
    if odd:
        text = wording.listed([why_refused(t) for t in odd], 4)
        return wording.finding(Verdict.INCONCLUSIVE, required, text, where=where(odd), evidence=keys(odd))
    return wording.finding(Verdict.PASS, required, f"rejected: {listed(large)}")


def _aligned(required: str, small: Sequence[Trial], resource: str) -> Finding:
    nothing = undecided(small, required, "with an init container that fits one NUMA node")
    if nothing is not None:
        return nothing
    refused = [t for t in small if t.outcome != RAN]
    if refused:
        wronged = [t for t in refused if t.topology and t.fitted and t.beside == 0]
        denied = [t for t in refused if numa_room.denied(t, resource)]
        text = wording.listed([why_refused(t) for t in denied or refused], 4)
        if wronged:
            text = f"{listed(wronged)} rejected although the node was empty"
        wronged += denied
        return wording.finding(
            Verdict.FAIL if wronged else Verdict.INCONCLUSIVE,
            required,
            text,
            violation=bool(wronged),
            where=where(refused),
            causes=(SHORTAGE,),
            evidence=keys(refused),
        )
    apart = [t for t in small if len(t.nodes) > 1]
    if apart:
        return violation(
            required,
            f"its devices are on several NUMA nodes: {listed(apart)}",
            apart,
            causes=(POLICY, ONE_NUMA),
        )
    lying = {name: both for t in small for name, both in t.lies.items()}
    if lying:
        parts = [
            f"for {name} the plugin reports NUMA node {a}, the machine {b}" for name, (a, b) in lying.items()
        ]
        text = wording.listed(parts, 4)
        return wording.finding(
            Verdict.INCONCLUSIVE,
            required,
            text,
            where=where(small),
            causes=(BUS,),
            evidence=keys(small),
        )
    unknown = [t for t in small if not t.known]
    if unknown:
        text = f"the NUMA node of the devices is not known for {listed(unknown)}"
        return wording.finding(
            Verdict.INCONCLUSIVE, required, text, where=where(unknown), evidence=keys(unknown)
        )
    nodes = sorted({node for t in small for node in t.nodes})
    return wording.finding(
        Verdict.PASS, required, f"aligned on NUMA node {', '.join(map(str, nodes))}: {listed(small)}"
    )


def _as_declared(
    evidence: Evidence, required: str, small: Sequence[Trial], declared: fields.Object
) -> list[Finding]:
    ran = [t for t in small if t.outcome == RAN]
    found = []
    if declared.get("qos") and ran:
        found.append(_class(required, ran, str(declared["qos"])))
    cpus = fields.number(declared, "cpus")
    if cpus and ran:
        found += [_cpus(evidence, required, trial, cpus) for trial in ran]
    return found


def _class(required: str, ran: Sequence[Trial], wanted: str) -> Finding:
    wrong = [t for t in ran if fields.text(t.pod.last, "status", "qosClass") != wanted]
    if wrong:
        has = fields.text(wrong[0].pod.last, "status", "qosClass") or "none"
        return wording.finding(
            Verdict.FAIL,
            required,
            f"{wrong[0].pod.name} has QoS class {has}, but {wanted} is declared",
            violation=True,
            where=where(wrong),
            causes=(CHANGED,),
            evidence=keys(wrong),
        )
    return wording.finding(Verdict.PASS, required, f"QoS class {wanted}")


def _cpus(evidence: Evidence, required: str, trial: Trial, wanted: int) -> Finding:
    """Judge what the main container may use: its own CPUs under the static policy, else at least as many."""
    asked = fields.requested(trial.pod.last, "cpu")
    if asked < wanted:
        return wording.finding(
            Verdict.FAIL,
            required,
            f"{trial.pod.name} asks for {float(asked):g} CPUs in the cluster, {wanted} are declared",
            violation=True,
            where=where([trial]),
            causes=(CHANGED,),
            evidence=keys([trial]),
        )
    main = [each for each in trial.holds if each.container != "init" and each.cpus]
    if not main:
        text = f"{trial.pod.name} did not report which CPUs it may use"
        return wording.finding(Verdict.INCONCLUSIVE, required, text, evidence=keys([trial]))
    width, quota = pod_devices.width(main[-1].cpus), main[-1].quota
    said = reading.by_kubelet(evidence).get(trial.node)
    static = said is not None and said.cpu_policy == "static"
    number = Number("CPUs that the container may use", width, "CPUs", wanted, "profile: numa.cpus")
    short = width < wanted or (quota is not None and quota < wanted)
    shared = static and trial.cpus > 0 and width != wanted
    if short or shared:
        limit = f", at most {quota:g} at a time" if quota is not None and quota < wanted else ""
        whose = " though the kubelet's CPU Manager is static" if shared and not short else ""
        return wording.finding(
            Verdict.FAIL,
            required,
            f"{trial.pod.name} may use CPUs {main[-1].cpus}{limit}, but {wanted} are declared{whose}",
            violation=True,
            where=where([trial]),
            causes=(CPU_POLICY, NOT_GUARANTEED),
            evidence=(main[-1].key,),
            numbers=(number,),
        )
    own = "its own" if static and trial.cpus else "shared with others"
    return wording.finding(Verdict.PASS, required, f"CPUs {main[-1].cpus}, {own}", numbers=(number,))
