"""INV-010: what a Job leaves out comes back with the documented default, and who filled it in is told."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.judge import attribution, subjects, wording
from pytest_gpucluster.judge.inventory import scheduler_parts
from pytest_gpucluster.requirement import Cause, Finding, Presupposed, Verdict

REQUIRED = (
    "a Job that omits these fields is stored with schedulerName volcano, queue default, maxRetry 3 and task names "
    "default0, default1 ..."
)

CASE = "defaults"
"""Case of our own dry-run Job; a second, which names a queue, follows where the first was refused for its queue."""

LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    CASE: ("schedulerName", "queue", "maxRetry", "task names"),
    f"{CASE}:queue-named": ("schedulerName", "maxRetry", "task names"),
    scheduler_parts.DRY_RUN_CASE: ("schedulerName", "maxRetry", "task names"),
    "missing-scheduler-name": ("schedulerName", "maxRetry"),
    "missing-queue": ("queue", "maxRetry"),
    "missing-min-available": ("maxRetry",),
}
"""Case -> what the Job left out: of our scenarios, and of recordings by their names."""

EXPECTED: Mapping[str, object] = {"queue": "default", "maxRetry": 3}

SCHEMA, ADMISSION_SETS, UNTOLD = "schema", "admission", "schema or admission"
BY_ADMISSION = frozenset({"schedulerName", "task names"})
"""Fields for which no schema has a default: only the mutating admission can fill them in."""

FIELD = {"schedulerName": "f:schedulerName", "queue": "f:queue", "maxRetry": "f:maxRetry"}

OTHER_VALUE = Cause(
    "the default was changed: another --scheduler-name or --default-queue of the admission, or a changed CRD",
    "declare the scheduler by its name on this cluster, and set queue and maxRetry in every Job",
)
OLD_CRD = Cause(
    "the CRDs come from another release than the other parts, or were installed without their defaults",
    "apply the CRDs of the installed release (kubectl get crd jobs.batch.volcano.sh -o yaml)",
)


@dataclasses.dataclass(frozen=True)
class Default:
    """What became of a field that was left out."""

    field: str
    value: object
    expected: object
    who: str
    line: Line

    @property
    def right(self) -> bool:
        """Report whether it is the documented value."""
        return self.value == self.expected


@subjects.judge
def documented_defaults(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge INV-010."""
    declared = str(given.get("scheduler") or "volcano")
    if declared != "volcano":
        text = f"the documented defaults are those of Volcano Jobs; the profile declares {declared}"
        return wording.finding(Verdict.NOT_APPLICABLE, REQUIRED, text)
    found: dict[str, Default] = {}
    for line in evidence.responses():
        for one in _defaults(line, declared):
            if one.field not in found or not one.right:
                found[one.field] = one
    wrong = [one for one in found.values() if not one.right]
    if wrong:
        return _wrong(wrong, list(found.values()))
    missing = [name for name in LEFT_OUT[CASE] if name not in found]
    told = "; ".join(f"{one.field} {_show(one.value)} (by {one.who})" for one in found.values())
    keys = tuple(dict.fromkeys(one.line.key for one in found.values()))
    if missing:
        text = (
            f"not seen: {', '.join(missing)}; {told}"
            if told
            else f"no Job that omits them was tried{_refused(evidence)}"
        )
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, evidence=keys)
    return wording.finding(
        Verdict.PASS, REQUIRED, told, evidence=keys, facts={one.field: one.who for one in found.values()}
    )


def _defaults(line: Line, declared: str) -> Iterator[Default]:
    """Yield what became of each field that the Job of an answer left out."""
    left_out = LEFT_OUT.get(str(line.data.get("case") or ""), ())
    answer = attribution.answer(line)
    if not left_out:
        return
    if not answer.accepted:
        named = _queue_of_refusal(answer.message)
        if "queue" in left_out and named:
            # The validating admission speaks of the queue that was filled in before it looked.
            yield Default("queue", named, EXPECTED["queue"], UNTOLD, line)
        return
    spec = fields.sub(line.data, "object", "spec") or fields.sub(line.data, "accepted_spec")
    if not spec:
        return
    owned = _owned(line)
    for field in left_out:
        if field == "task names":
            names = [task.get("name") for task in fields.items(spec, "tasks")]
            expected: object = [f"default{index}" for index in range(len(names))]
            yield Default(field, names, expected, ADMISSION_SETS, line)
            continue
        value = spec.get(field)
        yield Default(field, value, EXPECTED.get(field, declared), _who(field, owned), line)


def _queue_of_refusal(message: str) -> str:
    """Return the queue that a refusal speaks of, such as ``queue `default` status is `Closed` ``."""
    for before, after in (("queue `", "` status"), ('queue.scheduling.volcano.sh "', '" not found')):
        _, found, rest = message.partition(before)
        if found and after in rest:
            return rest.partition(after)[0]
    return ""


def _owned(line: Line) -> frozenset[str] | None:
    """Return the fields of the spec that were there before admission, None where the answer does not tell.

    The API server notes the fields of a create (`metadata.managedFields`) after it has decoded the object, which is
    when the schema's defaults are filled in, and before mutating admission. So a field that nobody sent and that is
    noted comes from the schema, and one that is not noted from the admission.
    """
    entries = fields.items(line.data, "object", "metadata", "managedFields")
    if not entries:
        return None
    return frozenset(key for entry in entries for key in fields.sub(entry, "fieldsV1", "f:spec"))


def _who(field: str, owned: frozenset[str] | None) -> str:
    if owned is not None:
        return SCHEMA if FIELD.get(field) in owned else ADMISSION_SETS
    return ADMISSION_SETS if field in BY_ADMISSION else UNTOLD


def _wrong(wrong: Sequence[Default], every: Sequence[Default]) -> Finding:
    lost = [
        one
        for one in wrong
        if one.value in (None, "", []) or (one.field == "task names" and not _named(one.value))
    ]
    causes: dict[Cause, None] = {}
    for one in wrong:
        if one not in lost:
            causes[OTHER_VALUE] = None
        elif one.field in BY_ADMISSION:
            causes[scheduler_parts.ADMISSION] = None
        else:
            causes[OLD_CRD] = None
    right = [f"{one.field} {_show(one.value)} (by {one.who})" for one in every if one.right]
    parts = [
        f"{one.field} was not filled in (must be {_show(one.expected)})"
        if one in lost
        else f"{one.field} is {_show(one.value)} instead of {_show(one.expected)}"
        for one in wrong
    ]
    return wording.finding(
        Verdict.FAIL,
        REQUIRED,
        "; ".join([*parts, *right]),
        violation=True,
        where=tuple(f"Job spec: {one.field}" for one in wrong),
        causes=tuple(causes),
        evidence=tuple(dict.fromkeys(one.line.key for one in wrong)),
        repeat=("kubectl create --dry-run=server -o yaml -f JOB.yaml",),
    )


def _named(value: object) -> bool:
    return isinstance(value, list) and all(value)


def _show(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) if one else "(none)" for one in value) or "none"
    return "nothing" if value in (None, "") else str(value)


def _refused(evidence: Evidence) -> str:
    for line in evidence.responses():
        if str(line.data.get("case") or "") in LEFT_OUT:
            answer = attribution.answer(line)
            if not answer.accepted:
                return f": HTTP {answer.code} by {answer.component} ({wording.short(answer.message)})"
    return ""


def dry_run_allowed(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the account may create Jobs, which a dry run needs as well."""
    del given
    name = "Jobs may be created"
    asked: list[Any] = [
        attribution.answer(line)
        for line in evidence.responses()
        if str(line.data.get("case") or "") in LEFT_OUT
    ]
    if not asked:
        return wording.presupposed(name, held=None, observed="no dry-run Job was sent")
    denied = [a for a in asked if a.code in (401, 403) and not a.at_admission]
    if denied:
        text = (
            f"HTTP {denied[0].code}: {wording.short(denied[0].message)} (the run needs create on "
            "jobs.batch.volcano.sh)"
        )
        return wording.presupposed(name, held=False, observed=text, evidence=(denied[0].line.key,))
    return wording.presupposed(name, held=True, observed=f"{len(asked)} dry runs answered")
