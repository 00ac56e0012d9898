"""Why the API server did not take an object that was to be created: by what it answers, not by the code alone."""

import re
from collections.abc import Iterator

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause

CLOSED = re.compile(
    r"queue `(?P<queue>[^`]+)` status is `(?P<state>\w+)`|queue \W?(?P<other>[\w.-]+)\W? (?:is|was) (?P<is>clos\w+)",
    re.IGNORECASE,
)
"""How Volcano says that a queue takes no Jobs."""

_CALLED = r'failed calling webhook "(?P<name>[^"]+)"'
TABLE: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"queue with state|" + CLOSED.pattern, re.IGNORECASE),
     "the queue takes no new Jobs: it is closed or closing",
     "open it (vcctl queue operate -a open -n QUEUE, or a Command OpenQueue), or name another queue"),
    (re.compile(r"unable to find (?:job )?queue|queue \S+ (?:does not exist|not found)", re.IGNORECASE),
     "the queue does not exist", "name one that exists (kubectl get queues.scheduling.volcano.sh), or create it"),
    (re.compile(_CALLED + r".*(?:x509|certificate|tls:)", re.DOTALL),
     "the certificate of the webhook {name} is not accepted: it has expired, or caBundle is another's",
     "make the certificate anew (for Volcano: delete the Secret of its admission and run its init job again)"),
    (re.compile(_CALLED + r".*(?:no endpoints|connection refused|no service|not found)", re.DOTALL),
     "the webhook {name} has no pod that answers",
     ("look at the pods and endpoints of the Service that its configuration names (kubectl get "
     "validatingwebhookconfigurations,mutatingwebhookconfigurations)")),
    (re.compile(_CALLED, re.DOTALL),
     "the webhook {name} does not answer in time: its pod hangs, or the API server does not reach it over the network",
     "look at its pod's log, and at firewalls between the control plane and the nodes (port of its Service)"),
    (re.compile(r"because it is being terminated"),
     "the namespace is being deleted", "wait until it is gone, or use another one"),
    (re.compile(r'namespaces "(?P<name>[^"]+)" not found'),
     "the namespace {name} does not exist", "create it, or correct its name"),
    (re.compile(r"exceeded quota: (?P<name>[^,\s]+)"),
     "the ResourceQuota {name} of the namespace is used up",
     "raise it above what all members ask for, or free what others of the namespace hold"),
    (re.compile(r"violates PodSecurity \"?(?P<name>[^\":]*)"),
     ("Pod Security of the namespace ({name}) forbids such "
     "pods"), ("change what the message names in the pod template, or "
     "the label pod-security.kubernetes.io/enforce of the namespace")),
    (re.compile(r'admission webhook "(?P<name>[^"]+)" denied the request'),
     "the webhook {name} refuses it", "change it as the answer demands"),
    (re.compile(r"ValidatingAdmissionPolicy '(?P<name>[^']+)'"),
     "the admission policy {name} refuses it", "change it as the answer demands, or exempt the namespace"),
    (re.compile(r"cannot create resource \"?(?P<name>[\w.-]+)"),
     "the account may not create {name}", "grant `create` on {name} (kubectl auth can-i create {name})"),
    (re.compile(r"strict decoding error|unknown field"),
     "a field is not known to this version of the API", "correct its name, or install the version that has it"),
    (re.compile(r"no matches for kind|could not find the requested resource"),
     "the API is not served: its CRDs are absent, or of another version", "install them (kubectl get crd)"),
    (re.compile(r"already exists"),
     "an object of that name exists already, such as one of an earlier attempt", "delete it, or use another name"),
    (re.compile(r"database space exceeded"),
     "etcd is full and takes no more objects", "compact and defragment etcd, raise its quota, then disarm its alarm"),
    (re.compile(r"request is too large|entity too large", re.IGNORECASE),
     "the object is too large", "make it smaller: long scripts belong into an image or a volume"),
    (re.compile(r"etcdserver:"),
     "etcd does not answer the API server in time", "look at etcd: its disk's latency, its members, its log"),
)  # fmt: skip
"""(what is answered, what it means, what to do)."""

CODES: dict[int, tuple[str, str]] = {
    401: ("the credentials are not accepted: the token has expired, or is of another cluster", "log in again"),
    403: ("the account may not do that", "grant what the answer names (kubectl auth can-i)"),
    404: ("what it refers to does not exist, or the API is not served", "read which in the answer"),
    409: ("somebody else changed or made it first", "repeat it, or use another name"),
    422: ("a field has a value that the schema does not allow", "correct the field that the answer names"),
    429: ("the API server limits the rate of requests", ("repeat it later; look at its flow control (kubectl get "
                                                        "flowschemas)")),
}  # fmt: skip
SERVER = (
    "the API server failed: itself, its etcd, or something between (a proxy, a load balancer)",
    "read the API server's log at that time; kubectl get --raw /readyz?verbose",
)


def why(code: int, message: str) -> Cause:
    """Return why a create was not taken, and what to do.

    Args:
        code: HTTP status of the answer, 0 where none came.
        message: what was answered.
    """
    for pattern, text, fix in TABLE:
        found = pattern.search(message)
        if found:
            name = found.groupdict().get("name") or ""
            return Cause(text.format(name=name.strip()) + _queue(message), fix.format(name=name.strip()))
    text, fix = SERVER if code >= 500 or not code else CODES.get(code, ("", "correct what the answer names"))
    said = wording.short(message)
    return Cause(f"{text or f'the API server refused it (HTTP {code})'}{f': {said}' if said else ''}", fix)


def _queue(message: str) -> str:
    found = CLOSED.search(message)
    return f" ({found['queue'] or found['other']} is {found['state'] or found['is']})" if found else ""


def refused(evidence: Evidence) -> Iterator[tuple[Line, int, str]]:
    """Yield the requests to create something that were not taken: line, code and message."""
    for line in evidence.responses():
        code = fields.number(line.data, "code") or 0
        if (
            code >= 400
            and fields.text(line.data, "request").startswith("create ")
            and not line.data.get("dry_run")
        ):
            status = fields.sub(line.data, "status") or fields.sub(line.data, "response")
            yield line, code, fields.text(status, "message")
