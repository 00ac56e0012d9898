"""REF-003: invalid Jobs are rejected at admission, by the webhook or by the schema."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.evidence import fields
from pytest_gpucluster.evidence.model import Evidence, Line
from pytest_gpucluster.judge import say, terms
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Refusal, Verdict

REQUIRED = "every invalid Job is refused at admission (webhook or schema) and nothing is created"

INVALID = (
    "min-above-replicas", "task-min-above-replicas", "duplicate-task", "unknown-plugin", "policy-event-internal",
    "policy-event-unknown", "policy-action-unknown", "mpi-no-master",
)  # fmt: skip
"""Cases that the documents promise to be refused, by the names that recordings give them.

Accepted by Volcano v1.14.4 as recorded, and therefore not among them: an unknown action with an exit code, unknown
plugin arguments, a pytorch Job without master task, unknown fields.
"""

_WEBHOOK = re.compile(r'admission webhook "(?P<name>[^"]+)" denied the request')
_POLICY = re.compile(r"ValidatingAdmissionPolicy '(?P<name>[^']+)'")
_CALL_FAILED = re.compile(r'failed calling webhook "(?P<name>[^"]+)"')

ACCEPTED = Cause(
    "the validating admission of the gang scheduler is absent, not registered for Jobs, or fails open",
    "install the admission (vc-webhook-manager) and check `kubectl get validatingwebhookconfigurations`: rule for "
    "jobs of batch.volcano.sh, failurePolicy Fail",
)


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the API server answered to one case."""

    case: str
    code: int
    component: str
    """Who refused: a webhook's name, `CRD schema`, an admission policy; "" for an accepted Job."""
    reason: str
    message: str
    at_admission: bool
    by_webhook: bool
    line: Line

    @property
    def accepted(self) -> bool:
        """Report whether the Job was taken."""
        return 200 <= self.code < 300


def answer(line: Line) -> Answer:
    """Return a RESPONSE line as an answer, with who refused: code and webhook name decide, the text explains."""
    status = fields.sub(line.data, "status") or fields.sub(line.data, "response")
    code = fields.number(line.data, "code") or fields.number(status, "code") or 0
    reason, message = fields.text(status, "reason"), fields.text(status, "message")
    component = ""
    at_admission = by_webhook = False
    if code >= 400:
        webhook = _WEBHOOK.search(message)
        policy = _POLICY.search(message)
        if webhook:
            component, at_admission, by_webhook = webhook["name"], True, True
        elif policy:
            component, at_admission = policy["name"], True
        elif code == 422 and reason == "Invalid":
            component, at_admission = "CRD schema", True
        else:
            failed = _CALL_FAILED.search(message)
            component = f"{failed['name']} (did not answer)" if failed else (reason or f"HTTP {code}")
    return Answer(
        str(line.data.get("case") or ""), code, component, reason, message, at_admission, by_webhook, line
    )


def wanted_cases(given: terms.Given) -> tuple[str, ...] | None:
    """Return the cases that must be refused as `given["cases"]` names them (a list of names, or a mapping)."""
    cases = given.get("cases")
    if isinstance(cases, Mapping):
        return tuple(str(case) for case in cases)
    if isinstance(cases, list | tuple):
        return tuple(
            str(fields.text(c, "case") or fields.text(c, "name")) if isinstance(c, Mapping) else str(c)
            for c in cases
        )
    return None


@terms.judge
def invalid_rejected(evidence: Evidence, given: terms.Given) -> Finding:
    """Judge REF-003."""
    stated = wanted_cases(given)
    answers = {a.case: a for a in map(answer, evidence.responses()) if a.case}
    wanted = stated if stated is not None else tuple(case for case in INVALID if case in answers)
    if not wanted:
        return say.finding(Verdict.INCONCLUSIVE, REQUIRED, "no invalid Job was tried")
    tried = {case: answers[case] for case in wanted if case in answers}
    accepted = [a for a in tried.values() if a.accepted]
    made = created(evidence, tuple(a for a in tried.values() if not a.accepted))
    if accepted or made:
        return violated(
            REQUIRED, "invalid Jobs", tried=tried, accepted=accepted, made=made, causes=(ACCEPTED,)
        )
    foreign = [a for a in tried.values() if not a.at_admission]
    keys = tuple(a.line.key for a in tried.values())[:12]
    if foreign:
        text = "; ".join(f"{a.case}: HTTP {a.code} by {a.component} ({a.message[:120]})" for a in foreign[:4])
        return say.finding(Verdict.INCONCLUSIVE, REQUIRED, f"not refused by admission: {text}", evidence=keys)
    missing = [case for case in wanted if case not in answers]
    if missing:
        text = f"no answer recorded for {say.listed(missing)}"
        return say.finding(Verdict.INCONCLUSIVE, REQUIRED, text, evidence=keys)
    by = sorted({a.component for a in tried.values()})
    first = next(iter(tried.values()))
    return say.finding(
        Verdict.PASS,
        REQUIRED,
        f"{len(tried)} of {len(tried)} invalid Jobs refused at admission by {say.listed(by)}; nothing was created",
        where=tuple(f"{a.case}: HTTP {a.code} by {a.component}" for a in tried.values()),
        evidence=keys,
        refusal=Refusal(
            first.component, first.component, first.case, first.reason, "admission", first.message[:200]
        ),
        facts={"cases": {a.case: {"code": a.code, "component": a.component} for a in tried.values()}},
    )


def created(evidence: Evidence, refused: tuple[Answer, ...]) -> dict[str, Line]:
    """Return lines that show objects of refused Jobs: the Job itself, found by its name."""
    jobs: dict[str, Line] = {}
    for line in evidence.of_kind(names.VC_JOB):
        jobs.setdefault(line.name, line)
    found: dict[str, Line] = {}
    for one in refused:
        name = _name(one.line.data) or one.case
        if name in jobs and not one.case.startswith("update-"):
            found[one.case] = jobs[name]
    return found


def _name(data: Mapping[str, Any]) -> str:
    """Return the object name that a request line carries, such as `create Job/x`."""
    request = str(data.get("request") or "")
    return request.rpartition("/")[2] if "/" in request else ""


def violated(
    required: str,
    what: str,
    *,
    tried: Mapping[str, Answer],
    accepted: list[Answer],
    made: Mapping[str, Line],
    causes: tuple[Cause, ...],
) -> Finding:
    """Return the violation: Jobs that had to be refused were accepted, or exist although they were refused."""
    parts = [f"{a.case} was accepted (HTTP {a.code})" for a in accepted]
    parts += [f"{case} was refused, yet {line.kind}/{line.name} exists" for case, line in made.items()]
    return say.finding(
        Verdict.FAIL,
        required,
        f"{len(parts)} of {len(tried)} {what}: {'; '.join(parts[:6])}",
        violation=True,
        where=tuple(a.case for a in accepted) + tuple(made),
        causes=causes,
        evidence=tuple(a.line.key for a in accepted) + tuple(line.key for line in made.values()),
        repeat=("kubectl create --dry-run=server -f JOB.yaml", "kubectl get validatingwebhookconfigurations"),
    )
