"""Names that resolvers in the logs did not know: not yet, or never? The EndpointSlices tell.

A name of a headless Service appears when the pod behind it is ready. A member that looks it up before that gets the
same answer as for a name that does not exist, so a failed look-up alone says nothing about DNS. Nor does one after
which the same member found the name.
"""

import dataclasses
import re
from collections.abc import Iterator

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import resolvers
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

TOO_EARLY = Cause(
    "the look-up came before the pod behind the name was ready (its image was still being pulled, or its probe "
    "had not passed): names of a headless Service appear when their pod is ready",
    "wait for DNS before the launcher starts, or make the Service publish addresses that are not ready",
)
SPREADS = 3.0
"""Seconds that a DNS server may need to learn what an EndpointSlice says, and a line to be read once it was written."""

_UNKNOWN = (
    re.compile(r"resolve host(?:name)? \"?([\w.-]+)\"?", re.IGNORECASE),
    re.compile(r"(?<![\w.-])([\w.-]+): (?:Name or service not known|Temporary failure in name resolution)"),
    re.compile(r"\(([\w.-]+), \d+\) cannot be retrieved"),
    re.compile(r"lookup ([\w.-]+)(?: on \S+)?: no such host"),
)


@dataclasses.dataclass(frozen=True)
class Unknown:
    """A name that a pod's log says it could not resolve.

    A line that was read while the pod ran was written then. One that was read later, or has no time, was written at
    some time of the pod's life.

    Attributes:
        early: the time before which it was not looked up.
        late: the time after which it was not looked up.
    """

    pod: str
    story: PodStory | None
    name: str
    early: float
    late: float
    key: str

    @property
    def went_well(self) -> bool:
        """Report whether the pod came to a good end all the same: it looked again, or had no need to."""
        return self.story is not None and _well(self.story)


def _well(pod: PodStory) -> bool:
    return pod.phase == "Succeeded" or (bool(pod.exit_codes) and all(code == 0 for _, code in pod.exit_codes))


def unknown_names(evidence: Evidence) -> list[Unknown]:
    """Return the names that logs of pods which ask the cluster's DNS call unknown, in order."""
    by_name = {pod.name: pod for pod in pods(evidence)}
    found = []
    for line in evidence.logs():
        text = str(line.data.get("line") or "")
        match = next((m for shape in _UNKNOWN if (m := shape.search(text))), None)
        if match is None:
            continue
        pod = str(line.data.get("pod") or "")
        story = by_name.get(pod)
        early, late = _when(evidence, line, story)
        found.append(Unknown(pod, story, match.group(1).rstrip(":."), early, late, line.key))
    return [one for one in found if not resolvers.elsewhere(one.story)]


def misdirected(evidence: Evidence) -> list[PodStory]:
    """Return the pods whose logs call names unknown and that do not ask the cluster's DNS."""
    by_name = {pod.name: pod for pod in pods(evidence)}
    texts = ((line, str(line.data.get("line") or "")) for line in evidence.logs())
    names = {str(line.data.get("pod") or "") for line, text in texts if any(s.search(text) for s in _UNKNOWN)}
    return [pod for name, pod in by_name.items() if name in names and resolvers.elsewhere(pod)]


def _when(evidence: Evidence, line: Line, story: PodStory | None) -> tuple[float, float]:
    """Return between which times a line was written."""
    if story is None:
        return line.t, line.t
    end = evidence.end if story.finished is None else story.finished
    if story.created <= line.t and (story.finished is None or line.t < story.finished):
        return line.t, line.t
    begun = [t for t in (story.running, story.bound) if t is not None and t < end]
    return begun[0] if begun else story.created, end


def published(evidence: Evidence, name: str) -> float | None:
    """Return when the pod behind a name was first listed as ready in an EndpointSlice, None for never."""
    host = name.partition(".")[0]
    return next((line.t for line in evidence.of_kind("EndpointSlice") if _lists(line, host)), None)


def listed_at(evidence: Evidence, name: str, t: float) -> bool:
    """Report whether the pod behind a name was listed as ready at a time."""
    host = name.partition(".")[0]
    newest: dict[str, Line] = {}
    for line in evidence.of_kind("EndpointSlice"):
        if line.t <= t:
            newest[line.uid] = line
    return any(line.type != "DELETED" and _lists(line, host) for line in newest.values())


def _lists(line: Line, host: str) -> bool:
    return any(_is(endpoint, host) for endpoint in fields.items(line.object, "endpoints"))


def _is(endpoint: fields.Object, host: str) -> bool:
    target = fields.text(endpoint, "targetRef", "name")
    ready = fields.sub(endpoint, "conditions").get("ready")
    return host in (target, fields.text(endpoint, "hostname")) and ready is not False


def decide(evidence: Evidence, required: str, dns: Cause) -> Finding | None:
    """Judge names from logs and EndpointSlices; None where no log calls a name unknown, or no slice was seen."""
    unknown = unknown_names(evidence)
    slices: tuple[Line, ...] = evidence.of_kind("EndpointSlice")
    if not unknown or not slices:
        return None
    keys = tuple(one.key for one in unknown)[:8]
    names = list(dict.fromkeys(one.name for one in unknown))
    times = {name: published(evidence, name) for name in names}
    never = [name for name, t in times.items() if t is None]
    if never:
        text = f"{wording.listed(never)} was not known to {unknown[0].pod}, and no EndpointSlice lists its pod as ready"
        return wording.finding(Verdict.INCONCLUSIVE, required, text, causes=(TOO_EARLY,), evidence=keys)
    late = [
        one
        for one in unknown
        if not one.went_well
        and listed_at(evidence, one.name, one.early - SPREADS)
        and listed_at(evidence, one.name, one.early)
    ]
    if late:
        one = late[0]
        since = times[one.name]
        text = (
            f"{one.name} is published from t={since:.0f} s, but {one.pod} could not resolve it at "
            f"t={one.early:.0f} s"
        )
        return wording.finding(Verdict.FAIL, required, text, causes=(dns,), evidence=keys, violation=True)
    last = max(t for t in times.values() if t is not None)
    after = list(_went_on(evidence, unknown, last))
    if not after:
        text = f"{wording.listed(names)} is published from t={last:.0f} s; no look-up was seen after that"
        return wording.finding(Verdict.INCONCLUSIVE, required, text, causes=(TOO_EARLY,), evidence=keys)
    early = list(dict.fromkeys(one.pod for one in unknown if not one.went_well))
    ended = f"{len(early)} attempts ended before that ({wording.listed(early)}), " if early else ""
    text = (
        f"{wording.listed(names)} is published from t={last:.0f} s, when its pod became ready; {ended}{after[0].name} "
        "ended well after it"
    )
    number = Number("time until the last name was published", round(last, 3), "s", origin="EndpointSlice")
    return wording.finding(
        Verdict.PASS,
        required,
        text,
        where=wording.places(after),
        causes=(TOO_EARLY,),
        evidence=keys,
        numbers=(number,),
    )


def _went_on(evidence: Evidence, unknown: list[Unknown], t: float) -> Iterator[PodStory]:
    """Yield the pods of the same namespaces that ended well after a time."""
    spaces = {one.story.namespace for one in unknown if one.story is not None}
    for pod in pods(evidence):
        if pod.namespace in spaces and _well(pod) and (pod.finished or 0.0) > t:
            yield pod
