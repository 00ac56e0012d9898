"""What must have been seen before a judge's pass counts: evidence that is missing is never good news.

A judge reads what there is. What should be there and is not is found here, in one way for all rows: the driver's record
of what it did is whole, each object that it made was seen, so was each member of the gangs under judgement and whatever
others speak of, the watches on which the row rests had no gap, and each member's payload said what its fellows said.
What a row rests on are members that came to the end that it expects: one that failed, was evicted or was started again
is never part of a pass, unless it plays a role in which that is meant to happen.
`judge.needed` has what rows need beside that, and the test that takes each piece of good evidence away reads from here
which pieces a row can do without.
"""

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from pytest_gpucluster.evidence.log import fields, payload_forms, payload_lines, soundness
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import containers, mishaps, pods
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.plain import names

TOLD_BY_PODS = frozenset({"ConfigMap", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"})
"""Kinds of what pods run, and of what lets them read the API: that it was there is told by what they print."""

DECLARED = (
    "scheduler", "queue", "gpu_resource", "gpus_per_node", "scheduler_period", "window", "bind_spread", "start_spread",
    "recovery", "budgets", "features", "namespace", "roles",
)  # fmt: skip
"""What the header of every scenario tells judges; one that lacks a part was cut."""


LAST = ("window-end", "deleted-by-us", "room-made")
"""Words of the driver after which a row looks no further, if it did nothing more."""
ACTS = ("window-end", "commanded", "evicted-by-us", "slots-set", "rebooted-by-us")
"""Words of the driver on what it did to the cluster, not to one of its objects."""

COUNTS = ("active", "pending", "running", "succeeded", "failed", "terminating", "unknown")
"""Fields in which the status of a Job, of Volcano or of Kubernetes, counts its pods."""


CREATED = re.compile(r"^Created pod: (?P<pod>\S+)$")
"""What the Job controller of Kubernetes says of each pod that it makes."""


@dataclasses.dataclass(frozen=True)
class Needs:
    """What a row needs, beside what every row does.

    Attributes:
        roles: who is under judgement, as submitted; () for all that the scenario submitted.
        watched: kinds on whose watch it rests beside those of the gangs.
        seen: kinds of which some object must have been seen, made by us or not, and their watch be whole.
        facts: events of the payload that every member says, line by line whole, and as often as the others.
        some: the same of events that not every task has to say: members of one task say them alike.
        told: events that members say as often as they have cause to: every line of them must be whole.
        notes: words of the driver that must be there, beside submissions, windows and the end; `a|b` for either.
        given: what the scenario tells judges and must be told, beside what all scenarios tell.
        meant: roles whose members are meant to fail, to be evicted or to start again.
        turned_away: the row itself judges which pods kubelets turn away.
    """

    roles: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    some: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    meant: tuple[str, ...] = ()
    turned_away: bool = False


@dataclasses.dataclass(frozen=True)
class Look:
    """What a row looks at in one evidence.

    Attributes:
        members: what the driver submitted and the row judges, or needs as a control.
        gangs: the gangs among them.
        kinds: kinds on whose watch the row rests, each with the time at which the first object of it was submitted.
        end: when the look at them ended: with the last window, or when the driver took the last of them away.
    """

    members: tuple[subjects.Member, ...]
    gangs: tuple[gangs.Gang, ...]
    kinds: Mapping[str, float]
    end: float

    @property
    def pods(self) -> frozenset[str]:
        """Return the uids of the pods that are looked at."""
        alone = {uid for kind, _, uid in self.members if kind == "Pod"}
        return frozenset({pod.uid for gang in self.gangs for pod in gang.pods} | alone)

    @property
    def objects(self) -> frozenset[str]:
        """Return the uids of all objects that are looked at."""
        mine = {uid for _, _, uid in self.members}
        # Kubernetes makes a PodGroup of a Job behind Kueue, too: nobody places the Job by that.
        placed = [gang for gang in self.gangs if gang.kind != names.BATCH_JOB or not gang.queue]
        return self.pods | mine | {group.uid for gang in placed for group in gang.groups}


def look(evidence: Evidence, given: subjects.Given, needs: Needs) -> Look:
    """Return what a row looks at."""
    played = subjects.roles(evidence, given)
    roles = [role for role in played if not needs.roles or role in needs.roles]
    made = dict.fromkeys(member for role in roles for member in played[role])
    members = tuple(member for member in made if member[0] not in TOLD_BY_PODS)
    cast = tuple(gang for gang in gangs.gangs(evidence) if subjects.plays(gang, members))
    begun = {str(note.data.get("uid")): note.t for note in evidence.notes("submitted")}
    starts = {uid: begun[uid] for _, _, uid in members if uid in begun}
    start = min(starts.values(), default=_first_act(evidence))
    kinds = dict.fromkeys((*needs.watched, *_seen(needs, cast)), start)
    of_gangs = [(starts.get(gang.uid, start), _kinds_of(gang)) for gang in cast]
    alone = [(starts.get(uid, start), (kind,)) for kind, _, uid in members if kind == "Pod"]
    for t, some in (*of_gangs, *alone):
        kinds.update({kind: min(t, kinds.get(kind, t)) for kind in some})
    return Look(members, cast, kinds, _end(evidence, set(starts)))


def _seen(needs: Needs, cast: Sequence[gangs.Gang]) -> tuple[str, ...]:
    """Return the kinds of which an object must have been seen; queues of Volcano stand only before Volcano's Jobs."""
    queued = not cast or any(gang.kind == names.VC_JOB for gang in cast)
    return tuple(kind for kind in needs.seen if kind != names.QUEUE or queued)


def _first_act(evidence: Evidence) -> float:
    """Return when the driver first did or asked something; what was seen before is what stood there."""
    acts = (line.t for line in evidence.lines if line.type in ("NOTE", "RESPONSE"))
    return next(acts, evidence.end)


def _kinds_of(gang: gangs.Gang) -> tuple[str, ...]:
    return (gang.kind, "Pod", *(group.kind for group in gang.groups))


def _end(evidence: Evidence, uids: Container[str]) -> float:
    """Return when the look at some objects ended."""
    finish = min((note.t for note in evidence.notes("end")), default=evidence.end)
    last: Line | None = None
    for note in evidence.notes():
        word, mine = note.data.get("note"), note.data.get("uid") in uids
        if note.t <= finish and word not in ("end", "logs", "submitted") and (mine or word in ACTS):
            last = note
    return last.t if last is not None and last.data.get("note") in LAST else finish


def of_ours(evidence: Evidence) -> bool:
    """Report whether this is of a run of ours, which its header names: others have no driver's record."""
    return bool(fields.text(evidence.header, "source", "run")) and evidence.clock == "receipt"


def broken_off(evidence: Evidence, given: subjects.Given, needs: Needs) -> tuple[str, str] | None:
    """Return what befell a member on which a row rests, and the key of the line that tells; None for nothing.

    Recordings are read as they are: whether somebody's members were meant to fail is not known.
    """
    if not of_ours(evidence):
        return None
    seen, played = look(evidence, given, needs), subjects.roles(evidence, given)
    meant = [member for role in needs.meant for member in played.get(role, ())]
    of_gangs = {
        pod.uid: (pod, _written(gang))
        for gang in seen.gangs
        if not subjects.plays(gang, meant)
        for pod in gang.pods
    }
    # The pods of a gang that we make ourselves, as Kubernetes' own is, have a role beside that of their PodGroup.
    of_any = {pod.uid for gang in seen.gangs for pod in gang.pods}
    alone = {uid for kind, _, uid in seen.members if kind == "Pod"} - of_any - {uid for _, _, uid in meant}
    resting = [
        *of_gangs.values(),
        *((pod, _spoke(evidence, pod) or frozenset()) for pod in pods.pods(evidence) if pod.uid in alone),
    ]
    until = min((note.t for note in evidence.notes("end")), default=math.inf)
    for pod, own in resting:
        if needs.turned_away and mishaps.turned_away(pod):
            continue
        found = mishaps.mishap(evidence, pod, own, until)
        if found is not None:
            return f"{pod.where} {found[0]}", found[1]
    return None


def _written(gang: gangs.Gang) -> frozenset[str] | None:
    """Return the names of the containers that the Job's templates have, None where there is no Job to read."""
    spec = fields.sub(gang.job.last, "spec") if gang.job is not None else {}
    sets = [
        fields.sub(one, "template", "spec") for one in (gang.job.replicated if gang.job is not None else ())
    ]
    templates = [fields.sub(one, "template", "spec") for one in (spec, *fields.items(spec, "tasks"), *sets)]
    parts = [fields.items(one, part) for one in templates for part in ("initContainers", "containers")]
    return frozenset(str(each.get("name")) for part in parts for each in part) or None


def _spoke(evidence: Evidence, pod: pods.PodStory) -> frozenset[str] | None:
    """Return the names of the containers of a pod that said facts, None where none did."""
    return (
        frozenset(word.container for word in payload_lines.words(evidence).words if word.uid == pod.uid)
        or None
    )


def lacking(evidence: Evidence, given: subjects.Given, needs: Needs) -> str:
    """Return what a row needs and the evidence of a scenario lacks, "" where it lacks nothing.

    Recordings are read as they are.
    """
    if not of_ours(evidence):
        return ""
    seen = look(evidence, given, needs)
    return next(
        (
            text
            for text in (
                *_record(evidence, given, needs),
                *_objects(evidence, given, seen, needs),
                *_watches(evidence, seen, needs),
                *_facts(evidence, given, seen, needs),
            )
        ),
        "",
    )


def _record(evidence: Evidence, given: subjects.Given, needs: Needs) -> Iterator[str]:
    """Say what the driver's record of what it did lacks."""
    absent = [key for key in DECLARED if key not in evidence.given] + [
        key for key in needs.given if key not in given
    ]
    if absent:
        yield f"the evidence for judges lacks {wording.listed(absent)}"
    if not evidence.notes("end"):
        yield "the evidence ends before the scenario"
    words = [str(note.data.get("note")) for note in evidence.notes()]
    marks = [word for word in words if word.startswith("window-")]
    if marks != ["window-begin", "window-end"] * (len(marks) // 2):
        yield "a window has only one of its two ends"
    for either in needs.notes:
        if not set(either.split("|")) & set(words):
            yield f"the driver's word `{either.replace('|', '` or `')}` is missing"
    roles = fields.sub(given, "roles")
    told = Counter(_who(one) for role in roles for one in fields.items(roles, role))
    noted = Counter(_who(note.data) for note in evidence.notes("submitted"))
    for kind, name in (told - noted) | (noted - told):
        yield f"{kind}/{name} is submitted in one part of the driver's record but not in another"
    yield from _answers(evidence)


def _who(data: Mapping[str, object]) -> tuple[str, str]:
    return str(data.get("kind") or ""), str(data.get("name") or "")


def _answers(evidence: Evidence) -> Iterator[str]:
    """Compare the driver's word on what it made, and on what was refused, with the API server's answers."""
    asked: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for line in evidence.responses():
        verb, _, what = str(line.data.get("request") or "").partition(" ")
        if verb == "create" and not line.data.get("dry_run"):
            asked[(fields.number(line.data, "code") or 0) < 400][what.partition("/")[0]] += 1
    for word, taken in (("submitted", True), ("refused", False)):
        noted = Counter(str(note.data.get("kind")) for note in evidence.notes(word))
        for kind in (noted - asked[taken]) | (asked[taken] - noted):
            yield f"{kind} was {word} {noted[kind]} times, but answered {asked[taken][kind]} times"


def _objects(evidence: Evidence, given: subjects.Given, seen: Look, needs: Needs) -> Iterator[str]:
    """Say what should have been seen and was not."""
    asked = subjects.count(given, "min_member")
    for gang in subjects.cast(evidence, {**given, "min_member": None}, "subject") or ():
        stated = [said.value for said in gang.job.minimums] if gang.job and gang.kind == names.VC_JOB else []
        if asked is not None and stated and asked not in stated:
            yield f"{gang.title} has minAvailable {stated[-1]}, and was submitted with {asked}"
    for kind, name, uid in seen.members:
        if uid and not evidence.history(uid):
            yield f"{kind}/{name} was submitted but never seen"
    for gang in seen.gangs:
        slots = {pod.slot for pod in gang.pods}
        if slots and len(slots) < gang.size:
            yield f"{gang.title}: {wording.part(len(slots), gang.size)} members were seen"
        counted = max((_counted(line, gang.kind) for line in evidence.history(gang.uid)), default=0)
        if counted > len(gang.pods):
            yield f"{gang.title}: it counts {wording.count(counted, 'pod')}, but {len(gang.pods)} were seen"
        if gang.kind == names.VC_JOB and not gang.groups:
            yield f"{gang.title}: its PodGroup was never seen"
        strays = [pod.name for pod in gang.pods if gang.job is not None and not fields.owner(pod.last)]
        if strays:
            yield f"{strays[0]} is labelled as a member of {gang.title}, which does not own it"
    yield from (f"no {kind} was seen" for kind in _seen(needs, seen.gangs) if not evidence.of_kind(kind))
    yield from _spoken_of(evidence, seen)


def _counted(line: Line, kind: str) -> int:
    """Return how many pods a Job says that it has at one time; what a batch Job ends it may count as failed, too."""
    keys = [key for key in COUNTS if kind == names.VC_JOB or key != "terminating"]
    return sum(fields.number(line.object, "status", key) or 0 for key in keys)


def _spoken_of(evidence: Evidence, seen: Look) -> Iterator[str]:
    """Say which object of a gang somebody speaks of that was never seen, though its kind was watched."""
    titles = {(gang.namespace, gang.name): gang for gang in seen.gangs}
    # One watch is ahead of another: what an event speaks of may be told beyond the horizon, where lines are left out.
    told_by = evidence.end - (subjects.LATE if "horizon" in evidence.header else 0.0)
    watched = {span.kind for span in evidence.spans}
    for pod in (pod for gang in seen.gangs for pod in gang.pods):
        kind = names.NATIVE_POD_GROUP if pod.native_group else names.POD_GROUP
        if (
            pod.group_name
            and kind in watched
            and pod.group_name not in {ln.name for ln in evidence.of_kind(kind)}
        ):
            yield f"{pod.name} belongs to PodGroup/{pod.group_name}, which was never seen"
    for line in evidence.of_kind("Event"):
        about = fields.sub(line.object, "involvedObject") or fields.sub(line.object, "regarding")
        kind, name, uid = (str(about.get(key) or "") for key in ("kind", "name", "uid"))
        space = str(about.get("namespace") or "")
        gang = titles.get((space, name))
        made = CREATED.search(str(line.object.get("message") or "")) if gang is not None else None
        if line.t > told_by:
            continue
        if gang is not None and made and made["pod"] not in {pod.name for pod in gang.pods}:
            yield f"{line.key} refers to Pod/{made['pod']}, which was never seen"
        ours = any(space == at and name.startswith(f"{title}-") for at, title in titles)
        if ours and uid and line.t <= seen.end and kind in seen.kinds and not evidence.history(uid):
            yield f"{line.key} refers to {kind}/{name} of uid {uid}, which was never seen"


def _watches(evidence: Evidence, seen: Look, needs: Needs) -> Iterator[str]:
    """Say which watch had a gap while the row looked.

    Where spans are proven, only those watches are proven of which a "never" is said; of the others it is enough that
    each object was seen.
    """
    strict = {"Pod", *needs.watched, *soundness.relied(evidence.lines)}
    loose = frozenset(seen.kinds) - strict if soundness.proven(evidence.header) else frozenset()
    for kind, begun in sorted(seen.kinds.items()):
        if kind in loose:
            continue
        for start, end in evidence.gaps(kind, begun, seen.end):
            yield f"the watch of {kind} had a gap of {end - start:.2f} s from t={start:.2f} s"


def _facts(evidence: Evidence, given: subjects.Given, seen: Look, needs: Needs) -> Iterator[str]:
    """Say what payloads should have told: whole lines, and as much of each member as of its fellows."""
    if not (needs.facts or needs.some or needs.told):
        return
    yield from _logs(evidence, seen)
    words, size = payload_lines.words(evidence), subjects.count(given, "world")
    said = dict.fromkeys((*needs.facts, *needs.some, *needs.told))
    for word in (word for event in said for word in words.of(event)):
        if word.uid in seen.pods:
            part, doubt = payload_forms.lacks(word), payload_forms.doubt(word, size)
            if part or doubt:
                yield f"{word.pod}: its fact `{word.event}` {doubt or f'lacks `{part}`'}"
    for gang in seen.gangs:
        ran = [pod for pod in gang.pods if pod.running is not None or pod.exit_codes]
        for event in needs.facts:
            yield from _alike(words.of(event), event, ran)
        for event in needs.some:
            for played in dict.fromkeys(_part_played(gang, pod) for pod in ran):
                fellows = [pod for pod in ran if _part_played(gang, pod) == played]
                yield from _alike(words.of(event), event, fellows)
    yield from (f"{uid}: a fact was cut" for uid in sorted(seen.pods) if words.torn.get(uid))


def _part_played(gang: gangs.Gang, pod: pods.PodStory) -> tuple[str, str]:
    """Return what tells the parts of a gang's members apart: the task; in a Job of one template each has its own."""
    return pod.task, pod.slot if gang.kind != names.VC_JOB else ""


def _alike(said: Iterable[payload_lines.Word], event: str, fellows: Sequence[pods.PodStory]) -> Iterator[str]:
    """Compare how often members say a fact, container by container."""
    told = Counter((word.uid, word.container) for word in said)
    for container in sorted({name for pod in fellows for uid, name in told if uid == pod.uid}):
        counts = {pod.name: told[pod.uid, container] for pod in fellows if container in _containers(pod)}
        most = max(counts.values(), default=0)
        for name in sorted(name for name, count in counts.items() if count < most):
            yield f"{name}: its {container} said `{event}` {counts[name]} times, that of others {most} times"


def _containers(pod: pods.PodStory) -> frozenset[str]:
    """Return the names of a pod's containers."""
    parts = (fields.items(pod.last, "spec", part) for part in ("initContainers", "containers"))
    return frozenset(str(each.get("name")) for part in parts for each in part)


def _logs(evidence: Evidence, seen: Look) -> Iterator[str]:
    """Say which log was fetched and is not there, or is there and was not noted; those of others' agents aside."""
    noted = {_place(note) for note in evidence.notes("logs") if note.data.get("ok") is True}
    there = {_place(line) for line in evidence.logs()}
    last = {line.name: line.object for uid in seen.pods for line in evidence.history(uid)[-1:]}
    for pod, container in sorted(noted ^ there):
        if pod in last and container not in containers.foreign(last[pod]):
            yield f"{pod}: the log of container {container} is incomplete"


def _place(line: Line) -> tuple[str, str]:
    return str(line.data.get("pod") or ""), str(line.data.get("container") or "")
