"""TRN-007: the pods of a JobSet have the stable names of its network, and each member resolves all of them."""

from collections.abc import Iterator, Mapping, Sequence

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.objects.owners import JobStory
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import jobsets
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.evidence.scheduling.jobsets import Child
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import job_cases
from pytest_gpucluster.judge.plugins import name_resolution
from pytest_gpucluster.judge.trainer import jobset_cases
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = (
    "each pod is named <jobset>-<replicated Job>-<Job's index>-<pod's index> in the subdomain of the JobSet's network, "
    "and each name resolves to its pod's address from every member, before members are ready"
)
ROLES = ("subject",)
NO_SERVICE = Cause(
    "there is no headless Service of the JobSet's subdomain: network.enableDNSHostnames is false, or JobSet's "
    "controller could not make it (a Service of that name that is not the JobSet's, or no permission)",
    "look for it and for the event HeadlessServiceCreationFailed: kubectl get service SUBDOMAIN; kubectl describe "
    "jobset NAME",
)
FOREIGN = Cause(
    "the Service of the JobSet's subdomain is not the JobSet's own: its controller takes one that is there as it is",
    "give the JobSet another network.subdomain, or remove that Service",
)
LATE = Cause(
    "the Service publishes pods only once they are ready: network.publishNotReadyAddresses is false",
    "set spec.network.publishNotReadyAddresses: true (the default)",
)
RENAMED = Cause(
    "somebody changed the pods' host names: a webhook, or a pod template with a hostname or subdomain of its own",
    "compare hostname and subdomain of the pods (kubectl get pods -o yaml) with the JobSet's template",
)


@subjects.judge
def resolve(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge TRN-007."""

    def one(gang: Gang, made: Sequence[Child]) -> Finding | str:
        return _judged(evidence, given, gang, made)

    return jobset_cases.decide(evidence, given, ROLES, one, REQUIRED)


def _judged(evidence: Evidence, given: subjects.Given, gang: Gang, made: Sequence[Child]) -> Finding | str:
    job = gang.job
    assert job is not None  # noqa: S101 (narrowed by jobset_cases)
    wanted = jobsets.pod_names(job)
    by_host = _by_host(made, wanted)
    subdomain, words = jobsets.subdomain(job), payload_lines.words(evidence)
    said = {host: words.last("waited", pod.uid) for host, pod in by_host.items()}
    keys = (
        *(pod.keys["created"] for pod in by_host.values()),
        *(w.key for w in said.values() if w is not None),
    )
    found = wording.Findings(REQUIRED, gang, evidence=keys[: wording.MANY * 2])
    for host, pod in by_host.items():
        own = (fields.text(pod.last, "spec", "hostname"), fields.text(pod.last, "spec", "subdomain"))
        if own != (host, subdomain):
            text = f"{pod.name} has host name and subdomain {'.'.join(own)}, not {host}.{subdomain}"
            return found.fail(text, RENAMED, violation=True)
        told = words.last("member", pod.uid)
        called = str(told.data.get("hostname") or "") if told is not None else ""
        if called and called.partition(".")[0] != host:
            return found.fail(f"{pod.name} calls itself {called}, not {host}", RENAMED, violation=True)
    addresses = {host: name_resolution.addresses_of(pod) for host, pod in by_host.items()}
    for word in (one for one in said.values() if one is not None):
        for text, wrong in _lookups(word, subdomain, addresses):
            causes = _causes(evidence, job, subdomain) if wrong else (name_resolution.DNS,)
            return found.fail(f"{text} from {word.pod}", *causes, violation=True)
    why = job_cases.expired(evidence, gang)
    stated = subjects.count(given, "members")
    if stated is not None and stated != len(wanted):
        return f"{gang.title} is stored with {len(wanted)} members, {stated} were asked for"
    lacks = [host for host in wanted if host not in by_host or not addresses[host]]
    if lacks:
        text = f"{gang.title}: no pod {wording.listed(lacks, 3)} with an address was seen"
        return text + (f" (waited for {why})" if why else "")
    owner = _shared(addresses)
    if owner:
        return f"{gang.title}: {owner} have one address: by it their names cannot be told apart"
    silent = [
        host
        for host, word in said.items()
        if word is None
        or (told := words.last("member", by_host[host].uid)) is None
        or not told.data.get("hostname")
    ]
    if silent:
        return f"{gang.title}: {wording.listed(silent, 3)} did not report host name and look-ups"
    runs = {str(word.data.get("run") or "") for word in said.values() if word is not None}
    if len(runs) > 1:
        return f"{gang.title}: its members speak of {len(runs)} runs: {wording.listed(sorted(runs), 3)}"
    last = max(word.t for word in said.values() if word is not None)
    for kind in ("Pod", "Service"):
        if evidence.gaps(kind, job.created, last):
            return f"{gang.title}: {kind} was not watched all the time"
    service = _service(evidence, job, subdomain, last)
    if not service:
        return f"{gang.title}: its names resolve, and no Service {subdomain} of its namespace was there"
    if fields.sub(service, "spec").get("publishNotReadyAddresses") is not True:
        return (
            f"{gang.title}: its names resolve, but Service {subdomain} does not publish pods before they are ready: "
            "whether they resolved in time is not known"
        )
    return _all_found(gang, said, {f"{host}.{subdomain}" for host in wanted}, found)


def _all_found(
    gang: Gang, said: Mapping[str, Word | None], names: set[str], found: wording.Findings
) -> Finding | str:
    """Judge look-ups of which none went wrong: whether each member looked all names up."""
    for host, word in said.items():
        looked = fields.sub(word.data, "names") if word is not None else {}
        if set(looked) != names or (word is not None and word.data.get("ok") is not True):
            return f"{gang.title}: {host} looked up {len(looked)} of {len(names)} names, or did not find them all"
    waits = [word.data.get("seconds") for word in said.values() if word is not None]
    longest = max((float(one) for one in waits if isinstance(one, int | float)), default=None)
    number = Number("longest wait for names", longest, "s", None, "the members' own clock")
    text = f"{gang.title}: {len(names)} names resolve from each of {len(said)} members ({min(names)} ...)"
    return found.passed(text, numbers=(number,))


def _by_host(made: Sequence[Child], wanted: Mapping[str, tuple[str, int]]) -> dict[str, PodStory]:
    """Return the newest pod of each place that the set has, under the host name that it must have."""
    newest: dict[tuple[str, int], PodStory] = {}
    for child in made:
        for pod in sorted(child.pods, key=lambda one: one.created):
            index = pod.slot.rpartition("index ")[2]
            if index.isdecimal():
                newest[child.job.name, int(index)] = pod
    return {host: newest[place] for host, place in wanted.items() if place in newest}


def _lookups(word: Word, subdomain: str, addresses: Mapping[str, set[str]]) -> Iterator[tuple[str, bool]]:
    """Yield what went wrong with a member's look-ups, and whether the name was not known at all."""
    for name, told in fields.sub(word.data, "names").items():
        host, _, rest = str(name).partition(".")
        listed: object = told.get("addresses") if isinstance(told, dict) else None
        got = {str(each) for each in listed} if isinstance(listed, list) else set()
        if not got:
            error = told.get("error") if isinstance(told, dict) else ""
            yield f"{name} did not resolve ({error or 'no address'})", True
        right = addresses.get(host)
        if got and rest.partition(".")[0] == subdomain and right and not got <= right:
            yield f"{name} is {', '.join(sorted(got))}, its pod has {', '.join(sorted(right))}", False


def _shared(addresses: Mapping[str, set[str]]) -> str:
    """Return two hosts whose pods have an address in common, as pods on their nodes' network have; "" for none."""
    whose: dict[str, str] = {}
    for host, mine in addresses.items():
        for address in mine:
            if address in whose:
                return f"{whose[address]} and {host}"
            whose[address] = host
    return ""


def _service(evidence: Evidence, job: JobStory, subdomain: str, t: float | None = None) -> fields.Object:
    """Return the Service of a set's subdomain as it was at a time, or else last; {} where there was none."""
    found = [
        line
        for line in evidence.of_kind("Service")
        if line.name == subdomain and fields.text(line.object, "metadata", "namespace") == job.namespace
    ]
    if t is None or not found:
        return found[-1].object if found else {}
    there = (evidence.at(uid, t) for uid in dict.fromkeys(line.uid for line in found))
    return next((obj for obj in there if obj is not None), {})


def _causes(evidence: Evidence, job: JobStory, subdomain: str) -> tuple[Cause, ...]:
    """Return why a name may not resolve, by what is seen of the Service."""
    service = _service(evidence, job, subdomain)
    if not service:
        return (NO_SERVICE,)
    if fields.text(fields.owner(service), "uid") != job.uid:
        return (FOREIGN,)
    if fields.sub(service, "spec").get("publishNotReadyAddresses") is not True:
        return (LATE,)
    return (name_resolution.DNS,)
