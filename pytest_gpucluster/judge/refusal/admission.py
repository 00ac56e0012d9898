"""REF-003: invalid Jobs are rejected at admission, by the gang scheduler's webhook or by the schema."""

from collections.abc import Iterable, Mapping, Sequence

from pytest_gpucluster.evidence.log.api_answers import CONTROL
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.scheduling import volcano_jobs
from pytest_gpucluster.judge import attribution, subjects, wording
from pytest_gpucluster.judge.attribution import Answer
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Refusal, Verdict

REQUIRED = (
    "every invalid Job is refused at admission (the gang scheduler's webhook or the schema) for its fault, "
    "nothing is created from it, and with that one fault corrected it is accepted"
)

INVALID = (
    "min-above-replicas", "task-min-above-replicas", "duplicate-task", "unknown-plugin", "policy-event-internal",
    "policy-event-unknown", "policy-action-unknown", "mpi-no-master",
)  # fmt: skip
"""Cases that the documents promise to be refused, by the names that recordings give them.

Accepted by Volcano v1.14.4 as recorded, and therefore not among them: an unknown action with an exit code, unknown
plugin arguments, a pytorch Job without master task, unknown fields.
"""

WATCHED = (names.VC_JOB, names.POD_GROUP, "Pod")
"""Kinds of what would exist of a Job that was refused and made all the same."""

ACCEPTED = Cause(
    "the validating admission of the gang scheduler is absent, not registered for Jobs, or fails open",
    "install the admission (vc-webhook-manager) and check `kubectl get validatingwebhookconfigurations`: rule for "
    "jobs of batch.volcano.sh, failurePolicy Fail",
)


def wanted_cases(given: subjects.Given) -> tuple[str, ...] | None:
    """Return the cases that must be refused as `given["cases"]` names them (a list of names, or a mapping)."""
    cases = given.get("cases")
    if isinstance(cases, Mapping):
        return tuple(str(case) for case in cases)
    if isinstance(cases, list | tuple):
        return tuple(str(c.get("case") or c.get("name")) if isinstance(c, Mapping) else str(c) for c in cases)
    return None


@subjects.judge
def invalid_rejected(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge REF-003."""
    stated = wanted_cases(given)
    answers = attribution.answers(evidence)
    wanted = stated if stated is not None else tuple(case for case in INVALID if case in answers)
    if not wanted:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, "no invalid Job was tried")
    tried = {case: answers[case] for case in wanted if case in answers}
    accepted = [a for a in tried.values() if a.accepted]
    made = created(evidence, [a for a in tried.values() if not a.accepted])
    if accepted or made:
        return violated(
            REQUIRED, "invalid Jobs", tried=tried, accepted=accepted, made=made, causes=(ACCEPTED,)
        )
    keys = tuple(a.line.key for a in tried.values())[:12]
    found = wording.Findings(REQUIRED, evidence=keys)

    foreign = [why for a in tried.values() if (why := attribution.misattributed(a, schema=True))]
    if foreign:
        return found.inconclusive(f"not refused as required: {'; '.join(foreign[:4])}", attribution.FOREIGN)
    missing = [case for case in wanted if case not in answers]
    if missing:
        return found.inconclusive(f"no answer recorded for {wording.listed(missing)}")
    loose = _uncontrolled(answers, tried, arranged=stated is not None)
    if loose:
        return found.inconclusive(loose, attribution.FOREIGN)
    unseen = unwatched(evidence, given, tried.values())
    if unseen:
        return found.inconclusive(unseen)
    by = sorted({a.component for a in tried.values()})
    first = next(iter(tried.values()))
    return found.passed(
        f"{len(tried)} of {len(tried)} invalid Jobs refused at admission by {wording.listed(by)}, accepted with "
        "the one fault corrected; nothing was created",
        where=tuple(f"{a.case}: HTTP {a.code} by {a.component}" for a in tried.values()),
        refusal=Refusal(
            first.component,
            first.component,
            first.case,
            first.reason,
            "admission",
            wording.short(first.message),
        ),
        facts={"cases": {a.case: {"code": a.code, "component": a.component} for a in tried.values()}},
    )


def _uncontrolled(answers: Mapping[str, Answer], tried: Mapping[str, Answer], *, arranged: bool) -> str:
    """Return which case lacks its control, "" for none.

    In a recording nobody made controls: there some Job must have been accepted, so that not all are refused.
    """
    if arranged:
        found = (
            attribution.uncontrolled(case, one, answers.get(CONTROL + case)) for case, one in tried.items()
        )
        return next((why for why in found if why), "")
    if any(one.accepted and one.line.data.get("accepted_spec") for one in answers.values()):
        return ""
    return "nothing shows that a valid Job is accepted"


def unwatched(evidence: Evidence, given: subjects.Given, refused: Iterable[Answer]) -> str:
    """Return where it was not watched whether something was made of refused Jobs, "" where it was, for a window."""
    at = [one.line.t for one in refused]
    begin = min(at)
    end = max([stop for _, stop in subjects.windows(evidence)], default=volcano_jobs.end_of_story(evidence))
    limits = subjects.of(evidence, given)
    if wanted_cases(given) is not None and end - max(at) < limits.window - subjects.EPSILON:
        seen = max(end - max(at), 0.0)
        return f"watched for {seen:.2f} s after the last refusal, the window is {limits.window:.2f} s"
    for kind in WATCHED:
        gaps = evidence.gaps(kind, begin, end)
        if gaps:
            when = f"from t={gaps[0][0]:.2f} to {gaps[0][1]:.2f} s"
            return f"it is not known whether anything was created: {kind} was not watched {when}"
    return ""


def created(evidence: Evidence, refused: Sequence[Answer]) -> dict[str, Line]:
    """Return case -> a line that shows an object of a refused Job, found by the Job's name.

    A name under which a Job was taken at another time, such as when its queue was open again, tells nothing.
    """
    every = [attribution.answer(line) for line in evidence.responses() if not line.data.get("dry_run")]
    taken = {one.name for one in every if one.accepted}
    wanted = {one.case: one.name or one.case for one in refused if not one.case.startswith("update-")}
    return attribution.made_of(evidence, {case: name for case, name in wanted.items() if name not in taken})


def violated(
    required: str,
    what: str,
    *,
    tried: Mapping[str, Answer],
    accepted: Sequence[Answer],
    made: Mapping[str, Line],
    causes: tuple[Cause, ...],
) -> Finding:
    """Return the violation: Jobs that had to be refused were accepted, or exist although they were refused."""
    parts = [f"{a.case} was accepted (HTTP {a.code})" for a in accepted]
    parts += [f"{case} was refused, but {line.kind}/{line.name} exists" for case, line in made.items()]
    return wording.finding(
        Verdict.FAIL,
        required,
        f"{len(parts)} of {len(tried)} {what}: {'; '.join(parts[:6])}",
        violation=True,
        where=tuple(a.case for a in accepted) + tuple(made),
        causes=causes,
        evidence=tuple(a.line.key for a in accepted) + tuple(line.key for line in made.values()),
        repeat=("kubectl create --dry-run=server -f JOB.yaml", "kubectl get validatingwebhookconfigurations"),
    )
