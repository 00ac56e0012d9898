"""KUE-007: topology-aware scheduling of Kueue keeps the domain that a Job requires."""

from collections.abc import Mapping

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.network_places import Domain
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import kueue_topology
from pytest_gpucluster.evidence.scheduling.kueue import Held
from pytest_gpucluster.evidence.scheduling.topology import labels_of
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.gang import topology_domain
from pytest_gpucluster.judge.gang.topology_domain import Trial
from pytest_gpucluster.judge.kueue import shared
from pytest_gpucluster.requirement import Cause, Finding, Verdict

ELSEWHERE = Cause(
    "the pods do not carry the labels of the domain that their Workload was given: the controller that opens the "
    "scheduling gate kueue.x-k8s.io/topology does not run, or something else removed the gate",
    "compare status.admission.podSetAssignments of the Workload with the pods' spec.nodeSelector; look at Kueue's log",
)


@subjects.judge
def keeps_domain(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge KUE-007."""
    trial = topology_domain.declared(evidence, given)
    if isinstance(trial, Finding):
        return trial
    unusable = shared.unusable(evidence, given, trial.required)
    if unusable is not None:
        return unusable
    inside = shared.named(evidence, given, "subject")
    across = shared.named(evidence, given, "across")
    if inside is None or across is None:
        return shared.nothing(evidence, trial.required, "Job that requires one domain")
    found = topology_domain.decide(trial, [job.gang for job in inside], [job.gang for job in across])
    if found.verdict is not Verdict.PASS:
        return found
    return wording.gravest(
        [found, *(_as_assigned(trial, job) for job in inside), *(_kept_out(trial, job) for job in across)]
    )


def _kept_out(trial: Trial, job: Held) -> Finding:
    """Return whether a Job that fits in no domain was given no quota: a pod that it has not yet made proves nothing."""
    of = trial.of(job.gang)
    if job.reserved:
        first = job.reserved[0]
        text = f"fits in no domain, yet quota was reserved for it at t={first.start:.2f} s"
        return of.fail(text, topology_domain.SCATTERING, violation=True, evidence=(first.key,))
    return of.passed("was given no quota")


def _as_assigned(trial: Trial, job: Held) -> Finding:
    """Return whether the pods are where the Workload was told: else where they are is luck."""
    of = trial.of(job.gang)
    told = [part for w in job.workloads if (part := kueue_topology.assigned(w.last)) is not None]
    if not told:
        return of.inconclusive(
            "was admitted without a topologyAssignment that can be read: where it is may be luck"
        )
    strays = [
        pod for pod in job.gang.pods if pod.bound is not None and not _there(trial.evidence, pod, told[-1])
    ]
    if strays:
        return of.fail(
            f"has {wording.count(len(strays), 'pod')} outside of the domains that its Workload was given",
            ELSEWHERE,
            violation=True,
            where=wording.places(strays),
            evidence=tuple(pod.keys["bound"] for pod in strays)[: wording.MANY],
        )
    given = [_domains(trial, job, place) for place in told[-1]]
    if any(len(domains) != 1 for domains in given):
        return of.inconclusive(
            f"was given places that are not in one domain of {trial.known.required} each: where it is may be luck"
        )
    several = set().union(*given)
    if len(several) > 1:
        shown = wording.listed(["/".join(domain) for domain in sorted(several)], 4)
        return of.fail(
            f"is in one domain, yet its Workload was given several: {shown}",
            topology_domain.SCATTERING,
            violation=True,
        )
    return of.passed("is where its Workload was told")


def _domains(trial: Trial, job: Held, place: Mapping[str, str]) -> set[Domain]:
    """Return the domains of the nodes of a place that a Workload was given, as they were when its Job was made."""
    found = set()
    for node in {line.name for line in trial.evidence.of_kind("Node")}:
        labels = labels_of(trial.evidence, node, job.created)
        domain = trial.known.domain(labels)
        if domain is not None and all(labels.get(key) == value for key, value in place.items()):
            found.add(domain)
    return found


def _there(evidence: Evidence, pod: PodStory, places: tuple[Mapping[str, str], ...]) -> bool:
    labels = kueue_topology.labels_of_node(evidence, pod)
    return any(all(labels.get(key) == value for key, value in place.items()) for place in places)
