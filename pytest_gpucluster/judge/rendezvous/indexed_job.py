"""RDZV-002: members of an Indexed Job have an index and a stable name each, find each other, and train together."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.objects import resolvers
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import name_resolution
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "each index from 0 to N-1 exists once, its pod's host name is <job>-<index>, every member's name resolves to "
    "its pod IP from all members, and a DDP step agrees with a single process"
)
NO_SUBDOMAIN = Cause(
    "names of an Indexed Job's pods need `subdomain` in the pod template and a headless Service of that name",
    "set spec.template.spec.subdomain to the name of a Service with clusterIP None that selects the Job's pods",
)
NOT_PUBLISHED = Cause(
    "the Service publishes pods only once they are ready, but members that wait for each other never become ready",
    "set publishNotReadyAddresses on the headless Service, and create it before the Job",
)
CONTROLLER = Cause(
    "the Job's controller did not make exactly one pod per index",
    "look at the Job's events and at the version of kube-controller-manager",
)
TRAINING = Cause(
    "the members met, but a collective or the gradients mixed or lost contributions",
    "look at the backend's log; run the same program in one pod to compare",
)
NO_GROUP = Cause(
    "names resolve but no group formed: the first member's port cannot be reached, or a member never started",
    "look at the last log lines of each member, and at NetworkPolicies and meshes between pods",
)


@dataclasses.dataclass(frozen=True)
class Member:
    """One member of an Indexed Job: its newest pod, and what it said there."""

    index: int
    pod: PodStory
    said: Word | None
    waited: Word | None
    trained: Word | None


def indexed_gangs(evidence: Evidence, given: subjects.Given) -> tuple[Gang, ...]:
    """Return the Indexed Jobs under judgement."""
    named = subjects.cast(evidence, given, "subject")
    found = named if named is not None else subjects.everyone(evidence)
    return tuple(gang for gang in found if _is_indexed(gang))


def _is_indexed(gang: Gang) -> bool:
    job = gang.job
    return (
        job is not None
        and job.kind == names.BATCH_JOB
        and fields.text(job.last, "spec", "completionMode") == "Indexed"
    )


def count(gang: Gang) -> int:
    """Return N, the indexes that a Job asks for."""
    spec = fields.sub(gang.job.last, "spec") if gang.job is not None else {}
    return fields.number(spec, "completions") or fields.number(spec, "parallelism") or 0


def index_of(pod: PodStory) -> int | None:
    """Return a pod's completion index, None where it has none that can be read."""
    slot = pod.slot.removeprefix("index ")
    return int(slot) if slot != pod.slot and slot.isdigit() else None


def members(evidence: Evidence, gang: Gang) -> list[Member]:
    """Return the newest pod of each index with what it said."""
    words = payload_lines.words(evidence)
    newest: dict[int, PodStory] = {}
    for pod in sorted(gang.pods, key=lambda pod: pod.created):
        index = index_of(pod)
        if index is not None:
            newest[index] = pod
    return [
        Member(
            index, pod, words.last("member", pod.uid), words.last("waited", pod.uid), words.last("trained", pod.uid)
        )
        for index, pod in sorted(newest.items())
    ]  # fmt: skip


@subjects.judge
def finds_its_members(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge RDZV-002."""
    found = indexed_gangs(evidence, given)
    if not found:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, subjects.nothing(evidence, "Indexed Job with a headless Service")
        )
    return wording.gravest([_judge(evidence, given, gang) for gang in found])


def _judge(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding:
    wanted, seen = count(gang), members(evidence, gang)
    keys = tuple(
        word.key for member in seen for word in (member.said, member.waited, member.trained) if word is not None
    )[:12]  # fmt: skip
    for text, cause in (*_indexes(evidence, given, gang, wanted), *_names(seen, gang)):
        return wording.finding(
            Verdict.FAIL, REQUIRED, text, gang, violation=True, causes=(cause,), evidence=keys
        )
    expired = subjects.timed_out(evidence, gang.created)
    lost = [index for index in range(wanted) if index not in {member.index for member in seen}]
    if lost:
        text = f"{gang.title}: no pod of index {wording.listed([str(i) for i in lost])} of {wanted} was seen"
        if expired and not evidence.gaps("Pod", gang.created, evidence.end):
            text += f" (waited for {expired[0]})"
            return wording.finding(
                Verdict.FAIL, REQUIRED, text, gang, causes=(CONTROLLER,), evidence=(expired[1],)
            )
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang)
    return _together(evidence, gang, seen, keys, expired)


def _indexes(
    evidence: Evidence, given: subjects.Given, gang: Gang, wanted: int
) -> Iterator[tuple[str, Cause]]:
    """Yield what is wrong with the indexes themselves: one outside, or two pods of one at a time."""
    grain = subjects.of(evidence, given).grain
    lives: dict[int, list[tuple[float, float, PodStory]]] = {}
    for pod in gang.pods:
        index = index_of(pod)
        if index is None:
            yield f"{pod.name} of {gang.title} has no completion index", CONTROLLER
            continue
        if wanted and index >= wanted:
            yield f"{pod.name} has index {index} of {wanted}", CONTROLLER
        gone = [t for t in (pod.deleting, pod.finished, pod.deleted) if t is not None]
        lives.setdefault(index, []).append((pod.created, min([evidence.end, *gone]), pod))
    for index, spans in lives.items():
        spans.sort(key=lambda span: span[0])
        for (_, end, one), (start, _, other) in itertools.pairwise(spans):
            if end - start > grain:
                text = f"index {index} of {gang.title} exists twice from t={start:.2f} s: {one.name}, {other.name}"
                yield text, CONTROLLER


def _names(seen: Sequence[Member], gang: Gang) -> Iterator[tuple[str, Cause]]:
    """Yield what is wrong with host names and look-ups."""
    addresses = {member.index: name_resolution.addresses_of(member.pod) for member in seen}
    for member in seen:
        host = f"{gang.name}-{member.index}"
        written = fields.text(member.pod.last, "spec", "hostname")
        if written and written != host:
            yield (
                f"{member.pod.name} of index {member.index} has the host name {written}, not {host}",
                CONTROLLER,
            )
        if member.said is None:
            continue
        told, index = str(member.said.data.get("hostname") or ""), member.said.number("index")
        if told and told.partition(".")[0] != host:
            yield f"{member.pod.name} calls itself {told}, not {host}", CONTROLLER
        if index is not None and index != member.index:
            yield f"{member.pod.name} of index {member.index} got the index {index}", CONTROLLER
        yield from _lookups(member, gang, addresses)


def _lookups(member: Member, gang: Gang, addresses: dict[int, set[str]]) -> Iterator[tuple[str, Cause]]:
    """Yield the names that one member did not find, or found elsewhere."""
    if member.waited is None:
        return
    for name, found in fields.sub(member.waited.data, "names").items():
        host = str(name).partition(".")[0]
        index = host.removeprefix(f"{gang.name}-")
        got = {str(a) for a in found.get("addresses") or ()} if isinstance(found, dict) else set()
        if not got and resolvers.elsewhere(member.pod):
            continue
        if not got:
            error = found.get("error") if isinstance(found, dict) else ""
            cause = NOT_PUBLISHED if fields.text(member.pod.last, "spec", "subdomain") else NO_SUBDOMAIN
            if isinstance(found, dict) and found.get("kind") == "no-answer":
                cause = name_resolution.NO_SERVER
            yield f"{name} did not resolve from {member.pod.name}: {error or 'no address'}", cause
        if got and index.isdigit() and addresses.get(int(index)) and not got & addresses[int(index)]:
            right = ", ".join(sorted(addresses[int(index)]))
            yield (
                f"{name} is {', '.join(sorted(got))} from {member.pod.name}, its pod has {right}",
                name_resolution.DNS,
            )


def _together(
    evidence: Evidence, gang: Gang, seen: list[Member], keys: tuple[str, ...], expired: tuple[str, str] | None
) -> Finding:
    """Judge whether the members trained together: at every time, also in pods that were replaced since."""
    uids = {pod.uid for pod in gang.pods}
    trained = [word for word in payload_lines.words(evidence).of("trained") if word.uid in uids]
    wrong = [word for word in trained if word.data.get("ok") is not True]
    if wrong:
        text = ", ".join(f"{w.pod} is {w.data.get('difference')} from a single process" for w in wrong[:4])
        return wording.finding(
            Verdict.FAIL, REQUIRED, f"DDP: {text}", gang, violation=True, causes=(TRAINING,), evidence=keys
        )
    apart = [m for m in seen if m.trained is not None and m.trained.number("world") != len(seen)]
    if apart:
        text = ", ".join(
            f"{m.pod.name} in a world of {m.trained.number('world')}" for m in apart if m.trained
        )
        return wording.finding(
            Verdict.FAIL, REQUIRED, f"DDP of {len(seen)} members: {text}", gang, evidence=keys
        )
    lacks = [m.pod.name for m in seen if m.trained is None]
    if lacks:
        failed = [m for m in seen if any(code for _, code in m.pod.exit_codes)]
        text = f"{wording.listed(lacks)} reported no step"
        if failed or expired:
            ended = f"{failed[0].pod.name} ended with {failed[0].pod.exit_codes[0][1]}" if failed else ""
            text += f"; {ended or 'waited for ' + (expired[0] if expired else '')}"
            logged = payload_lines.words(evidence).logged
            read = any(m.pod.uid in logged for m in seen)
            verdict = Verdict.FAIL if read else Verdict.INCONCLUSIVE
            return wording.finding(verdict, REQUIRED, text, gang, causes=(NO_GROUP,), evidence=keys)
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang, evidence=keys)
    unread = [m.pod.name for m in seen if m.said is None or m.waited is None]
    if unread:
        text = f"{wording.listed(unread)} did not report host name and look-ups"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang, evidence=keys)
    hosts = wording.listed([f"{gang.name}-{member.index}" for member in seen], 4)
    far = max(float(m.trained.data.get("difference") or 0.0) for m in seen if m.trained)
    text = f"{len(seen)} indexes once each, {hosts} resolve from all members, a DDP step agrees with a single process"
    number = Number("difference of DDP from one process", far, "", 1e-5, "fp32 arithmetic of the payload")
    return wording.finding(Verdict.PASS, REQUIRED, text, gang, evidence=keys, numbers=(number,))
