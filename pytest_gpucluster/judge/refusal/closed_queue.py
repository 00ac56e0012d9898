"""REF-004: a queue that does not exist, or is not open, takes no Job."""

import dataclasses

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import attribution, controls, subjects, wording
from pytest_gpucluster.judge.attribution import Answer
from pytest_gpucluster.judge.refusal import admission, refusals
from pytest_gpucluster.requirement import Cause, Finding, Refusal, Verdict

REQUIRED = (
    "a Job for a queue that does not exist, or that is closed, is refused at admission by the gang scheduler's "
    "webhook because of its queue, and nothing is created; the same Job runs on that queue while it is open"
)
UNKNOWN, CLOSED = "unknown-queue", "closed-queue"
CASES = (UNKNOWN, CLOSED)
OPEN = "Open"
SHUT = ("Closing", "Closed")

ACCEPTED = Cause(
    "the validating admission for Jobs is absent or ignores the queue; such a Job then waits forever without a "
    "message, since no scheduler enqueues it",
    "install the admission (vc-webhook-manager) and check `kubectl get validatingwebhookconfigurations`: rule for "
    "jobs of batch.volcano.sh, failurePolicy Fail",
)


@dataclasses.dataclass(frozen=True)
class _Asked:
    """One case with the queue that it named and that queue's state when the answer came."""

    answer: Answer
    queue: str
    state: str


@subjects.judge
def closed_queue_refuses(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge REF-004."""
    asked = _asked(evidence)
    wanted = admission.wanted_cases(given) or tuple(case for case in CASES if case in asked) or CASES
    tried = {case: asked[case] for case in wanted if case in asked}
    if not tried:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, "no Job was sent to a queue that must refuse it"
        )
    answers = {case: one.answer for case, one in tried.items()}
    accepted = [one for one in answers.values() if one.accepted]
    made = admission.created(evidence, [one for one in answers.values() if not one.accepted])
    if accepted or made:
        return admission.violated(
            REQUIRED, "Jobs for such queues", tried=answers, accepted=accepted, made=made, causes=(ACCEPTED,)
        )
    keys = tuple(one.line.key for one in answers.values())
    texts = tuple(_text(case, one) for case, one in tried.items())
    found = wording.Findings(REQUIRED, evidence=keys, where=texts)

    foreign = [why for one in answers.values() if (why := attribution.misattributed(one, schema=False))]
    if foreign:
        return found.inconclusive(f"not refused as required: {foreign[0]}", attribution.FOREIGN)
    missing = [case for case in wanted if case not in tried]
    if missing:
        return found.inconclusive(f"not tried: {wording.listed(missing)}")
    shut = tried.get(CLOSED)
    if shut is not None and shut.state not in SHUT:
        how = shut.state or "not seen in any state"
        said = wording.short(shut.answer.message)
        text = f"queue {shut.queue or 'of the case'} was {how} when its Job was refused ({said})"
        return found.inconclusive(text)
    ran = _control(evidence, given, shut)
    if ran is None:
        return found.inconclusive("no fitting Job was seen to run on the queue while it was open")
    unseen = admission.unwatched(evidence, given, answers.values())
    if unseen:
        return found.inconclusive(unseen)
    first = next(iter(answers.values()))
    return found.passed(
        f"{'; '.join(texts)}; nothing was created{ran}",
        refusal=Refusal(
            first.component, first.component, first.case, first.reason, "admission", wording.short(first.message)
        ),
        facts={"cases": {case: {"code": a.code, "component": a.component} for case, a in answers.items()}},
    )  # fmt: skip


def _text(case: str, one: _Asked) -> str:
    queue = f" ({one.queue}{f', {one.state}' if one.state else ''})" if one.queue else ""
    return f"{case}{queue}: HTTP {one.answer.code} by {one.answer.component}"


def _asked(evidence: Evidence) -> dict[str, _Asked]:
    """Return the answers by case: by the case's name, else by a queue that was not open and that the answer names."""
    found: dict[str, _Asked] = {}
    for line in evidence.responses():
        answer = attribution.answer(line)
        if answer.case in CASES:
            name, state = _queue(evidence, answer) if answer.case == CLOSED else ("", "")
            if answer.case not in found or (answer.accepted and not found[answer.case].answer.accepted):
                found[answer.case] = _Asked(answer, name, state)
        elif not answer.case and answer.code >= 400:
            name, state = _queue(evidence, answer)
            if name and state != OPEN:
                found.setdefault(CLOSED, _Asked(dataclasses.replace(answer, case=CLOSED), name, state))
    return found


def _queue(evidence: Evidence, answer: Answer) -> tuple[str, str]:
    """Return the queue that a case was sent to, and its state then: a queue of ours, or one that the answer names."""
    names = dict.fromkeys(line.name for line in evidence.of_kind("Queue"))
    ours = [
        str(note.data.get("name")) for note in evidence.notes("submitted") if note.data.get("role") == "queue"
    ]
    name = next(
        (name for name in (*ours, *names) if f"`{name}`" in answer.message or f'"{name}"' in answer.message),
        "",
    )
    name = name or (ours[0] if len(ours) == 1 else "")
    status = refusals.queue_object(evidence, name, answer.line.t).get("status") if name else None
    state = str(status.get("state") or "") if isinstance(status, dict) else ""
    return name, state


def _control(evidence: Evidence, given: subjects.Given, shut: _Asked | None) -> str | None:
    """Return what ran on the queue while it was open, "" where a recording tells nothing of it, None for nothing."""
    named = subjects.cast(evidence, given, "control")
    if named is None:
        return ""
    for gang in named:
        ran, what = controls.ran(evidence, given, gang)
        if ran and (shut is None or gang.queue == shut.queue):
            return f"; {gang.name} {what} on {gang.queue} while it was open"
    return None
