"""Log lines in which members complain that they cannot reach each other."""

import dataclasses
import re

from pytest_gpucluster.diagnose import clock, words
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Line
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge.plugins import pytorch_plan

UNRESOLVED = re.compile(
    r"Name or service not known|Temporary failure in name resolution|[Cc]ould not resolve|nodename nor servname|"
    r"gai error|getaddrinfo|[Nn]o such host|No address associated|[Cc]an't resolve|bad address|Unknown host|"
    r"could not translate host name|NXDOMAIN"
)
"""What resolvers, ssh, torch, Go and busybox print when a name is not known."""

UNREACHED = re.compile(
    r"(?P<reset>reset by peer|ECONNRESET)|(?P<refused>[Cc]onnection refused|ECONNREFUSED)|"
    r"(?P<timeout>(?:connect|socket|rendezvous|store)\S{0,80} .{0,2000}timed? ?out|"
    r"timed out .{0,2000}(?:connect|socket|rendezvous|store)|"
    r"ETIMEDOUT|Connection timed out|RendezvousConnectionError)|"
    r"(?P<failed>failed to connect to|No route to host|EHOSTUNREACH)"
)

PAIR = re.compile(r"\(\[?(?P<host>[A-Za-z][\w.-]*|\d+\.\d+\.\d+\.\d+)\]?, ?(?P<port>\d{2,5})\)")

COLON = re.compile(
    r"(?<![\w./-])\[?(?P<host>[a-z][\w-]*(?:\.[\w-]+)*|\d+\.\d+\.\d+\.\d+)\]?:(?P<port>\d{2,5})(?![\w.])"
)
SOURCE = re.compile(r"\.(?:cc|cpp|cu|cxx|c|h|hpp|py|go|rs)$")
"""Names of source files: programs print them with the number of a line behind a colon, as if it were a port."""
HOST = re.compile(
    r"(?:host(?:name)?|resolve|address|lookup):? ['\"]?(?P<host>[a-z0-9][\w-]*(?:\.[\w-]+)+|[a-z][\w-]*-\d+)"
)

PORT = re.compile(r"port (?P<port>\d{2,5})")

NAMED = re.compile(r"(?<![\w.-])([a-z0-9][a-z0-9-]*-\d+\.[a-z0-9][a-z0-9-]*)(?![\w-])")
"""Names of pods in a Service, as commands carry them."""

TAIL = 40
"""A line of trouble counts if it is among so many last ones of its container."""

WELL = ("barrier", "rank", "sum")
"""Facts that a payload prints when the members have met."""


@dataclasses.dataclass(frozen=True)
class Complaint:
    """A log line in which a member says that it cannot reach another."""

    pod: str
    text: str
    key: str
    t: float
    what: str
    host: str
    port: str

    @property
    def said(self) -> str:
        """Return the line, shortened to be shown."""
        return words.short(self.text)


def _read(line: Line, pod: str, what: str) -> Complaint:
    text = str(line.data.get("line") or "").strip()
    named = [m for m in (*PAIR.finditer(text), *COLON.finditer(text)) if not SOURCE.search(m["host"])]
    found = named[0] if named else None
    host = found["host"] if found else ""
    port = found["port"] if found else ""
    if not host and (told := HOST.search(text)):
        host = told["host"]
    if not port and (told := PORT.search(text)):
        port = told["port"]
    return Complaint(pod, text, line.key, line.t, what, host, port)


def complaints(s: Situation, pattern: re.Pattern[str], *, anywhere: bool = False) -> list[Complaint]:
    """Return what members complain of, the newest line of each pod; what was followed by a meeting is left out."""
    spoke = payload_lines.words(s.evidence)
    uids = {p.name: p.uid for p in s.pods}
    found = []
    for pod, lines in s.logs.items():
        met = [w.t for w in spoke.words if w.event in WELL and w.uid == uids.get(pod, pod)]
        newest: Complaint | None = None
        for line in lines if anywhere else lines[-TAIL:]:
            hit = pattern.search(str(line.data.get("line") or ""))
            if not hit or (met and max(met) >= line.t):
                continue
            one = _read(line, pod, hit.lastgroup or "unresolved")
            # torch says in one line what went wrong and in another with whom.
            if newest is not None:
                one = dataclasses.replace(one, host=one.host or newest.host, port=one.port or newest.port)
                if one.what == "failed":
                    one = dataclasses.replace(one, what=newest.what)
            newest = one
        if newest is not None:
            found.append(_told(s, newest))
    return found


def _told(s: Situation, one: Complaint) -> Complaint:
    """Return a complaint with the host and port that the pod's command names, where its log does not say with whom."""
    pod = next((p for p in s.pods if p.name == one.pod), None)
    if pod is None or one.host:
        return one
    told = command_line(pod.last)
    named = {host for host in NAMED.findall(told) if host.partition(".")[0] != pod.name}
    plan = pytorch_plan.plan_of(s.gang) if s.gang else None
    if plan is not None and plan.masters and ("MASTER_ADDR" in told or not named):
        return dataclasses.replace(one, host=plan.address, port=one.port or plan.port)
    return dataclasses.replace(one, host=named.pop()) if len(named) == 1 else one


def command_line(spec: fields.Object) -> str:
    """Return command and arguments of the containers of a pod or template in one line."""
    words: list[str] = []
    for container in fields.containers(spec):
        for part in ("command", "args"):
            value = container.get(part)
            words += [str(word) for word in value] if isinstance(value, list | tuple) else []
    return " ".join(words)


def written(s: Situation, found: list[Complaint]) -> list[float]:
    """Return the seconds at which complaints were written, of those of which that is known."""
    return [t for c in found if (t := clock.written(s, c.text, c.t)) is not None]


def is_bad(s: Situation, found: list[Complaint]) -> bool:
    """Report whether the complainers are still in trouble."""
    if s.phase == "Completed":
        return False
    by_name = {p.name: p for p in s.pods}
    return any(c.pod not in by_name or by_name[c.pod].phase != "Succeeded" for c in found)


def host_pod(s: Situation, host: str) -> PodStory | None:
    """Return the pod that a name or address is of."""
    first = host.partition(".")[0]
    return next((p for p in s.pods if p.name in (host, first) or (host and p.ip == host)), None)


def own(c: Complaint) -> bool:
    """Report whether a pod complains of itself."""
    return bool(c.host) and c.pod == c.host.partition(".")[0]


def ready_at(s: Situation, pod: str) -> float | None:
    """Return when a pod's address appeared behind a Service, None where that was not seen."""
    for kind in ("Endpoints", "EndpointSlice"):
        for line in s.evidence.of_kind(kind):
            subsets = fields.items(line.object, "subsets")
            ready = [a for sub in subsets for a in fields.items(sub, "addresses")]
            ready += [
                e for e in fields.items(line.object, "endpoints")
                if fields.sub(e, "conditions").get("ready") is not False
            ]  # fmt: skip
            if any(pod in (fields.text(a, "targetRef", "name"), fields.text(a, "hostname")) for a in ready):
                return line.t
    return None
