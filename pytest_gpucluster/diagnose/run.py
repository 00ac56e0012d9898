"""Diagnose: run every detector and every judge whose evidence is there, and put what they say in order."""

from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.diagnose import owning, understood
from pytest_gpucluster.diagnose.detect.table import DETECTORS
from pytest_gpucluster.diagnose.model import Certainty, Diagnosis, Kind, Stage, State, Suspect
from pytest_gpucluster.diagnose.situation import GOING, Situation, exists, loose_pods
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import FINISHED
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Finding, Verdict

Judge = Callable[[Evidence, Mapping[str, Any]], Finding]

STAGES: Mapping[str, Stage] = {
    "INV": Stage.API, "GANG": Stage.PLACE, "REF": Stage.ENQUEUE, "PLG": Stage.WIRE, "LIFE": Stage.END,
    "RDZV": Stage.CONNECT, "ELA": Stage.CONNECT, "NUMA": Stage.ADMIT, "KUE": Stage.QUEUE,
}  # fmt: skip
"""Family of requirements -> where on its way a job is held up when one of them fails."""


CROWD = 40
"""Other jobs beside which the judges that compare jobs are still asked: they look at each of them."""

ODD = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError)
"""What a question raises on objects that no API server would have taken; the others are asked all the same."""

OWN = ("PLG", "LIFE", "RDZV", "ELA")
"""Families that judge one job by itself: what other jobs look like is no evidence for them."""


def subjects(
    evidence: Evidence, name: str = "", namespace: str = "", kind: str = ""
) -> tuple[Situation, ...]:
    """Return what can be diagnosed: the jobs of that name, or all; pods of no job are one subject together.

    Args:
        evidence: the evidence.
        name: of the job, its PodGroup, or what made it; "" for all.
        namespace: its namespace; "" for any.
        kind: how kubectl calls the kind, in lower case (`vcjob`, `podgroup`, `trainjob`); "" for any.
    """
    found = [
        gang for gang in owning.jobs(evidence)
        if (not name or _asked(evidence, gang, kind, name))
        and (not namespace or not gang.namespace or gang.namespace == namespace)
    ]  # fmt: skip
    if name or found:
        there = [gang for gang in found if exists(gang)]
        alone = tuple(p for p in loose_pods(evidence) if p.name == name and namespace in ("", p.namespace))
        if not found and alone and kind in ("", *owning.called("Pod")):
            return (Situation(evidence, None, alone[-1:]),)
        return tuple(Situation(evidence, gang) for gang in _newest(found if name or not there else there))
    loose = tuple(p for p in loose_pods(evidence) if not namespace or p.namespace == namespace)
    if loose or evidence.logs() or evidence.responses():
        return (Situation(evidence, None, loose),)
    return ()


def _asked(evidence: Evidence, gang: Gang, kind: str, name: str) -> bool:
    return (
        owning.belongs(gang, kind, name)
        or owning.held_for(evidence, gang, kind, name)
        or owning.related(evidence, gang, kind, name)
    )


def _newest(found: list[Gang]) -> list[Gang]:
    """Keep of jobs of one name the one that exists, or else the last."""
    kept: dict[tuple[str, str, str], Gang] = {}
    for gang in found:
        key = (gang.kind, gang.namespace, gang.name)
        if key not in kept or exists(gang):
            kept[key] = gang
    return list(kept.values())


def diagnose(situation: Situation, judges: Mapping[str, Judge] | None = None) -> Diagnosis:
    """Return what holds a job up, likeliest cause first."""
    beside = _read_beside(situation)
    rows, judged, broken = _judged(situation, {} if beside else judges or {})
    suspects: list[Suspect] = []
    deaf: list[str] = []
    for detector in DETECTORS if not situation.gone else ():
        try:
            found = list(detector(situation))
        except ODD as error:
            what = detector.__name__.replace("_", " ")
            deaf.append(f"the check '{what}' cannot read this evidence ({type(error).__name__}: {error})")
            continue
        suspects += [one for one in found if all(one.cause.text != known.cause.text for known in suspects)]
    suspects = without_contradictions(suspects)
    well = _well(situation) and not beside
    sure = any(one.certainty is Certainty.SURE for one in suspects if one.kind is not Kind.NOTE)
    for one in judged if not (situation.gone or sure) else ():
        if any(one.cause.text == known.cause.text or set(one.rows) & set(known.rows) for known in suspects):
            continue
        suspects.append(_noted(one) if well else one)
    causes = sorted((one for one in suspects if one.kind is not Kind.NOTE), key=lambda one: one.order)
    notes = sorted((one for one in suspects if one.kind is Kind.NOTE), key=lambda one: one.stage)
    state = _state(situation, causes, well=well)
    if state is State.HEALTHY and deaf:
        state = State.UNCLEAR  # a question that could not be asked may be the one that finds it
    unread = understood.unread(situation, well=well)
    return Diagnosis(
        subject=situation.title, state=state, phase=situation.phase, summary=summary(situation),
        suspects=tuple(causes), notes=tuple(notes), rows=rows, looked=looked(situation),
        missing=(*missing(situation), *beside, *broken, *deaf),
        complete=not (unread or deaf or beside or understood.strange(situation)),
    )  # fmt: skip


CONTRADICTED: Mapping[str, frozenset[str]] = {
    "scheduler-name": frozenset({"scheduler-unknown", "fits-and-waits"}),
    "scheduler-unknown": frozenset({"fits-and-waits"}),
}
"""Code of a fault -> codes of guesses that it answers: that a gang would fit means nothing where no scheduler of its
name looks at it, and one whose name is a mistake need not be started."""


UNEXPLAINED = "controller-warns"
"""Code of a warning that is quoted as it is: whatever else explains the job knows more."""


def without_contradictions(suspects: list[Suspect]) -> list[Suspect]:
    """Return the suspects without those that another answers; of one code a sure one answers the guesses."""
    faults = [one for one in suspects if one.kind is not Kind.NOTE]
    answered = {code for one in faults for code in CONTRADICTED.get(one.code, ())}
    if any(one.code != UNEXPLAINED and one.certainty is not Certainty.POSSIBLE for one in faults):
        answered.add(UNEXPLAINED)
    sure = {one.code for one in faults if one.certainty is Certainty.SURE and one.code in CONTRADICTED}
    return [
        one for one in suspects
        if one.code not in answered and (one.code not in sure or one.certainty is Certainty.SURE)
    ]  # fmt: skip


def _read_beside(s: Situation) -> tuple[str, ...]:
    """Return a word about a job that stands in a dump only because it takes room beside the one that was looked at."""
    told = fields.sub(s.evidence.header, "subject")
    if (
        not told
        or s.gang is None
        or (told.get("name"), told.get("namespace")) == (s.gang.name, s.gang.namespace)
    ):
        return ()
    text = (
        f"the dump was made for {told.get('kind')}/{told.get('name')} -n {told.get('namespace')}: of this job it "
        "has only the resources, no log and no environment"
    )
    return (text,)


def _noted(one: Suspect) -> Suspect:
    return Suspect(
        one.code,
        one.stage,
        Kind.NOTE,
        Certainty.POSSIBLE,
        one.cause,
        one.seen,
        one.where,
        one.evidence,
        one.rows,
        one.look,
    )


def _judged(
    s: Situation, judges: Mapping[str, Judge]
) -> tuple[dict[str, dict[str, str]], list[Suspect], tuple[str, ...]]:
    """Return what every judge says that can say something, its violations as suspects, and judges that broke."""
    rows: dict[str, dict[str, str]] = {}
    found: list[Suspect] = []
    broken: list[str] = []
    alone = _alone(s) if judges else s.evidence
    if judges and len(s.others) > CROWD:
        judges = {row: judge for row, judge in judges.items() if row.partition("-")[0] in OWN}
        broken.append(
            f"rows that compare jobs: there are {len(s.others)} other jobs, more than are compared here"
        )
    for row, judge in judges.items():
        evidence = alone if row.partition("-")[0] in OWN else s.evidence
        try:
            finding = judge(evidence, evidence.given)
        except ODD as error:
            broken.append(f"{row}: its judge cannot read this evidence ({type(error).__name__}: {error})")
            continue
        if finding.verdict not in (Verdict.PASS, Verdict.FAIL, Verdict.ENVIRONMENT):
            continue
        rows[row] = {"verdict": finding.verdict.value, "observed": finding.observed}
        if finding.verdict is Verdict.FAIL and finding.causes and _about(s, finding):
            stage = STAGES.get(row.partition("-")[0], Stage.END)
            found += [
                Suspect(
                    f"row-{row.lower()}", stage, Kind.FAULT, Certainty.POSSIBLE, cause, finding.observed, finding.where,
                    finding.evidence, (row,), finding.repeat,
                )
                for cause in finding.causes[:1]
            ]  # fmt: skip
    return rows, found, tuple(broken)


def _alone(s: Situation) -> Evidence:
    """Return the evidence without the other jobs, of which a dump holds only what room they take."""
    if s.gang is None or not s.others:
        return s.evidence
    theirs = {uid for g in s.others for uid in (g.uid, *(p.uid for p in g.pods), *(x.uid for x in g.groups))}
    lines = [line for line in s.evidence.lines if not line.kind or line.uid not in theirs]
    return Evidence(lines, header=s.evidence.header, spans=s.evidence.spans)


def _about(s: Situation, finding: Finding) -> bool:
    """Report whether a finding is about this job."""
    if s.gang is None:
        return True
    mine = {s.gang.title, *(f"Pod/{p.name}" for p in s.gang.pods)}
    return any(place == title or place.startswith(f"{title} ") for place in finding.where for title in mine)


def _well(s: Situation) -> bool:
    """Report whether the job runs as it should, or ended well."""
    if s.phase in ("Completed", "Complete"):
        return True
    if s.phase in GOING or s.ended:
        return False
    alive = [p for p in s.pods if p.phase not in FINISHED]
    ready = all(p.phase == "Running" and not p.blocked() for p in alive if p.bound is not None)
    done = not alive and bool(s.pods) and any(p.phase == "Succeeded" for p in s.pods)
    runs = not alive or any(p.bound is not None for p in alive)
    return (s.whole and ready and runs) or done


def _state(s: Situation, causes: list[Suspect], *, well: bool) -> State:
    if s.gone:
        return State.GONE
    if causes:
        first = causes[0]
        if first.code == "not-understood":
            return State.UNCLEAR
        if first.certainty is Certainty.POSSIBLE and (well or first.kind is Kind.REFUSAL):
            return State.UNCLEAR  # what is only possible is neither good news nor bad
        return State.TROUBLE if first.kind is Kind.FAULT else State.REFUSED
    if well:
        return State.HEALTHY
    if _barred(s):
        return State.UNCLEAR
    return State.STARTING if s.age <= max(s.silent, 2 * s.silent if s.pods else 0) else State.UNCLEAR


def _barred(s: Situation) -> bool:
    """Report whether no pod and no job is known because pods may not be read: how old they are tells nothing then."""
    return (
        s.gang is None
        and not s.pods
        and any(
            line.data.get("case") == "collect:Pod" and line.data.get("code") in (401, 403)
            for line in s.evidence.responses()
        )
    )


def summary(s: Situation) -> str:
    """Return how the job is, in one line."""
    parts = []
    lasting = "" if s.evidence.header.get("assumed") else " for {0:.0f} s"
    if s.job is not None:
        since = s.now - (s.job.phases[-1][0] if s.job.phases else s.job.created)
        parts.append(f"phase {s.phase or 'none'}{lasting.format(since)}")
    if s.group is not None:
        parts.append(f"PodGroup {s.group.phases[-1][1] if s.group.phases else 'without phase'}")
    if s.gang is not None:
        parts.append(f"{wording.part(s.held, s.minimum)} members placed")
    counts: dict[str, int] = {}
    for pod in s.pods:
        counts[pod.phase or "Unknown"] = counts.get(pod.phase or "Unknown", 0) + 1
    parts.append(
        wording.count(len(s.pods), "pod")
        + (f" ({', '.join(f'{n} {phase}' for phase, n in sorted(counts.items()))})" if counts else "")
    )
    return ", ".join(parts)


def looked(s: Situation) -> tuple[str, ...]:
    """Return what was looked at."""
    found = []
    if s.job is not None:
        found.append("the Job")
    if s.group is not None:
        found.append(f"PodGroup {s.group.name}")
    found.append(wording.count(len(s.pods), "pod"))
    about = len(s.said_of_job) + sum(len(s.said_of_pod(p)) for p in s.pods)
    if s.group is not None:
        about += len(s.said("PodGroup", s.group.namespace, s.group.name, s.group.uid))
    found.append(f"{wording.count(about, 'event')} about them")
    if s.queue:
        found.append(f"queue {s.queue_name}")
    for kind, what in (("Node", "node"), ("Service", "Service"), ("NetworkPolicy", "NetworkPolicy"),
                       ("ResourceQuota", "ResourceQuota"), ("ConfigMap", "ConfigMap")):  # fmt: skip
        lines = s.objects(kind)
        if lines or s.looked_at(kind):
            found.append(
                wording.count(len(lines), what, "NetworkPolicies" if what == "NetworkPolicy" else "")
            )
    if s.others:
        found.append(wording.count(len(s.others), "other job"))
    written = sum(len(log) for log in s.logs.values())
    before = sum(bool(line.data.get("previous")) for log in s.logs.values() for line in log)
    if s.logs:
        found.append(
            f"logs of {wording.count(len(s.logs), 'pod')} "
            f"({wording.count(written, 'line')}{f', {before} of runs before' if before else ''})"
        )
    return tuple(found)


NEEDED: tuple[tuple[str, str], ...] = (
    ("Event", "events"), ("Queue", "queues"), ("Node", "nodes"), ("PodGroup", "PodGroups"), ("Pod", "pods"),
)  # fmt: skip


def missing(s: Situation) -> tuple[str, ...]:
    """Return what could not be looked at, and why."""
    found = []
    for line in s.evidence.responses():
        if str(line.data.get("case") or "").startswith("collect:"):
            status = fields.sub(line.data, "status")
            words = fields.text(status, "message") or f"HTTP {line.data.get('code')}"
            found.append(f"{line.data.get('request')}: {words}")
    wanted = {
        str(ref["name"])
        for pod in s.pods for box in fields.containers(pod.last) for entry in fields.items(box, "env")
        if (ref := fields.sub(entry, "valueFrom", "configMapKeyRef")).get("name") and not ref.get("optional")
    }  # fmt: skip
    absent_maps = sorted(name for name in wanted if s.object("ConfigMap", name, s.namespace) is None)
    if absent_maps and not s.ended:  # a controller takes its ConfigMap back with the job
        found.append(
            f"ConfigMaps {wording.listed(absent_maps, 4)}: the values that pods take from them are missing"
        )
    reading = s.evidence.header.get("reading")
    found += [str(note) for note in reading] if isinstance(reading, list) else []
    collected = s.evidence.header.get("looked")
    if not isinstance(collected, Mapping):
        absent = [
            word for kind, word in NEEDED if not any(k.partition(".")[0] == kind for k in s.evidence.kinds)
        ]
        absent += [] if s.logs else ["logs"]
        if absent:
            found.append(f"the evidence has no {', no '.join(absent)}")
    return tuple(found)
