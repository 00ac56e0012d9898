"""Who refused an object at admission, and for what: the gate that must refuse is told from all that may refuse.

Several gates stand before an object is stored: permission, quota, the schema, webhooks and admission policies, of the
gang scheduler or of anybody else (a policy engine). Only the one that must refuse proves anything, only if it speaks
of what is wrong, and only beside a control: the same object with the one wrong thing right is accepted.
"""

import dataclasses
import re
from collections.abc import Mapping

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.plain import names, shortening
from pytest_gpucluster.requirement import Cause

SCHEMA = "CRD schema"

_WEBHOOK = re.compile(r'admission webhook "(?P<name>[^"]+)" denied the request')
_POLICY = re.compile(r"ValidatingAdmissionPolicy '(?P<name>[^']+)'")
_CALL_FAILED = re.compile(r'failed calling webhook "(?P<name>[^"]+)"')
_QUOTA = re.compile(r"exceeded quota: (?P<name>[^,\s]+)")
_VOLCANO = re.compile(r"(?:^|\.)volcano\.sh$")
"""Names of Volcano's webhooks end so (validatejob.volcano.sh); other versions have others before it."""

_VOLCANO_POLICY = re.compile(r"^volcano-")
"""Names of the admission policies that Volcano's chart installs instead of its webhooks begin so."""

_QUEUE = r"queue"
_MINIMUM = r"minAvailable.*replicas"
_POLICIES = r"invalid policy|spec\.policies|policy event|policy action|exit ?code|error code|no other policy"
ABOUT: Mapping[str, str] = {
    "min-available-above-replicas": _MINIMUM,
    "min-above-replicas": _MINIMUM,
    "task-min-above-replicas": _MINIMUM,
    "duplicate-task": r"duplicat\w* task|task\w* .*duplicat",
    "unknown-plugin": r"plugin",
    "invalid-policy": _POLICIES,
    "policy-event-internal": _POLICIES,
    "policy-event-unknown": _POLICIES,
    "policy-action-unknown": _POLICIES,
    "mpi-without-master": r"mpi",
    "mpi-no-master": r"mpi",
    "unknown-queue": _QUEUE,
    "closed-queue": _QUEUE,
}
"""Case -> what a refusal for it speaks of, in the words of any version."""

FOREIGN = Cause(
    "another gate than the gang scheduler's admission refuses such Jobs here: a policy engine, a quota or a permission",
    "exempt the namespace of the suite from that policy, or make the suite's Jobs satisfy it through the pod "
    "overlay of the profile, and repeat: the answer of the gang scheduler's own admission was not seen",
)


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the API server answered to one case.

    Attributes:
        component: who refused: a webhook's name, the schema, an admission policy, a quota; "" for an accepted object.
        at_admission: it was refused by admission or the schema, whoever's.
        by_webhook: it was refused by a webhook.
    """

    case: str
    code: int
    component: str
    reason: str
    message: str
    at_admission: bool
    by_webhook: bool
    line: Line

    @property
    def accepted(self) -> bool:
        """Report whether the object was taken."""
        return 200 <= self.code < 300

    @property
    def request(self) -> str:
        """Return what was asked, such as `create Job.batch.volcano.sh/x`, "" where a recording does not say."""
        return str(self.line.data.get("request") or "")

    @property
    def name(self) -> str:
        """Return the object's name as the request gives it, "" where it does not."""
        return self.request.rpartition("/")[2] if "/" in self.request else ""

    @property
    def volcano(self) -> bool:
        """Report whether Volcano's own admission refused: a webhook of its, or a policy that its chart installs."""
        named = _VOLCANO if self.by_webhook else _VOLCANO_POLICY
        return self.at_admission and bool(named.search(self.component))

    @property
    def to_the_point(self) -> bool:
        """Report whether the refusal speaks of what is wrong with the case."""
        about = ABOUT.get(self.case)
        return about is None or bool(re.search(about, self.message, re.IGNORECASE | re.DOTALL))

    @property
    def text(self) -> str:
        """Return the case with what became of it."""
        if self.accepted:
            return f"{self.case}: accepted (HTTP {self.code})"
        said = shortening.shown(self.message, 200)
        return f"{self.case}: HTTP {self.code} by {self.component} ({said})"


def answer(line: Line) -> Answer:
    """Return a RESPONSE line as an answer, with who refused: code and name decide, the text explains."""
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
            component, at_admission = SCHEMA, True
        else:
            component = _other(message) or reason or f"HTTP {code}"
    return Answer(
        str(line.data.get("case") or ""), code, component, reason, message, at_admission, by_webhook, line
    )


def _other(message: str) -> str:
    quota, failed = _QUOTA.search(message), _CALL_FAILED.search(message)
    if quota:
        return f"ResourceQuota {quota['name']}"
    return f"{failed['name']} (did not answer)" if failed else ""


def answers(evidence: Evidence) -> dict[str, Answer]:
    """Return the answer to each case; of several to one case one that took the object, else the first."""
    found: dict[str, Answer] = {}
    for line in evidence.responses():
        one = answer(line)
        if one.case and (one.case not in found or (one.accepted and not found[one.case].accepted)):
            found[one.case] = one
    return found


def misattributed(one: Answer, *, schema: bool) -> str:
    """Return why a refusal is not that of the gate that must refuse, "" where it is.

    Args:
        one: the answer.
        schema: the schema may refuse it as well.
    """
    if one.volcano or (schema and one.component == SCHEMA):
        return "" if one.to_the_point else f"{one.text}: the message does not name what is wrong with the Job"
    return f"{one.text}: this is not the gang scheduler's admission"


def uncontrolled(case: str, one: Answer, control: Answer | None) -> str:
    """Return why a case has no control, "" where the same object with the wrong thing right was accepted."""
    if control is None:
        return f"nothing shows that the Job of {case} is accepted with its one fault corrected"
    if not control.accepted:
        return f"the Job of {case} was refused even with its one fault corrected: {control.text}"
    if control.request != one.request:
        return f"the control of {case} asked for something else: {control.request}, not {one.request}"
    return ""


def made_of(evidence: Evidence, names_: Mapping[str, str]) -> dict[str, Line]:
    """Return case -> the first line of an object that exists of a refused Job.

    That is the Job itself, or what its controllers, which find nothing to work on, would have made of it: by owner, by
    what Volcano puts on pods, or by the name of its PodGroup.

    Args:
        evidence: the evidence.
        names_: case -> the Job's name.
    """
    cases = {name: case for case, name in names_.items() if name}
    found: dict[str, Line] = {}
    for line in evidence.lines:
        job = _job_of(line) if line.kind else ""
        if job in cases:
            found.setdefault(cases[job], line)
    return found


_GROUP = re.compile(r"(?P<job>.+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
"""Volcano's name of a Job's PodGroup."""
_JOB_NAME = "volcano.sh/job-name"


def _job_of(line: Line) -> str:
    """Return the name of the Volcano Job to which an object belongs, "" where it belongs to none."""
    if line.kind == names.VC_JOB:
        return line.name
    if line.kind == "Event":
        return ""
    metadata = fields.sub(line.object, "metadata")
    for ref in fields.items(metadata, "ownerReferences"):
        if ref.get("kind") == "Job" and str(ref.get("apiVersion") or "").startswith("batch.volcano.sh/"):
            return str(ref.get("name") or "")
    for place in ("labels", "annotations"):
        job = fields.sub(metadata, place).get(_JOB_NAME)
        if job:
            return str(job)
    group = (
        line.name
        if line.kind == "PodGroup"
        else str(fields.sub(metadata, "annotations").get(names.ANNOTATION_GROUP) or "")
    )
    match = _GROUP.match(group)
    return match["job"] if match else ""
