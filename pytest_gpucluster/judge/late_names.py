"""Names that resolvers in the logs did not know: not yet, or never? The EndpointSlices tell.

A name of a headless Service appears when the pod behind it is ready. A member that looks it up before that gets the
same answer as for a name that does not exist, so a failed look-up alone says nothing about DNS.
"""

import dataclasses
import re
from collections.abc import Iterator

from pytest_gpucluster.evidence import fields
from pytest_gpucluster.evidence.model import Evidence, Line
from pytest_gpucluster.evidence.pods import PodStory, pods
from pytest_gpucluster.judge import say
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

TOO_EARLY = Cause(
    "the look-up came before the pod behind the name was ready (its image was still being pulled, its probe not yet "
    "passed): names of a headless Service appear when their pod is ready",
    "wait for DNS before the launcher starts, or let the Service publish addresses that are not ready",
)

_UNKNOWN = (
    re.compile(r"resolve host(?:name)? \"?([\w.-]+)\"?", re.IGNORECASE),
    re.compile(r"([\w.-]+): (?:Name or service not known|Temporary failure in name resolution)"),
    re.compile(r"\(([\w.-]+), \d+\) cannot be retrieved"),
    re.compile(r"lookup ([\w.-]+)(?: on \S+)?: no such host"),
)


@dataclasses.dataclass(frozen=True)
class Unknown:
    """A name that a pod's log says it could not resolve; `t` is when the pod's attempt ended, else when it said so."""

    pod: str
    story: PodStory | None
    name: str
    t: float
    key: str


def unknown_names(evidence: Evidence) -> list[Unknown]:
    """Return the names that logs call unknown, in order."""
    by_name = {pod.name: pod for pod in pods(evidence)}
    found = []
    for line in evidence.logs():
        text = str(line.data.get("line") or "")
        match = next((m for shape in _UNKNOWN if (m := shape.search(text))), None)
        if match is None:
            continue
        pod = str(line.data.get("pod") or "")
        story = by_name.get(pod)
        ended = story.finished if story is not None else None
        found.append(
            Unknown(pod, story, match.group(1).rstrip(":."), line.t if ended is None else ended, line.key)
        )
    return found


def published(evidence: Evidence, name: str) -> float | None:
    """Return when the pod behind a name was first listed as ready in an EndpointSlice, None for never."""
    host = name.partition(".")[0]
    for line in evidence.of_kind("EndpointSlice"):
        if any(_is(endpoint, host) for endpoint in fields.items(line.object, "endpoints")):
            return line.t
    return None


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
        text = f"{say.listed(never)} was not known to {unknown[0].pod}, and no EndpointSlice lists its pod as ready"
        return say.finding(Verdict.INCONCLUSIVE, required, text, causes=(TOO_EARLY,), evidence=keys)
    late = [one for one in unknown if one.t > (times[one.name] or 0.0)]
    if late:
        one = late[0]
        since = times[one.name]
        text = (
            f"{one.name} is published from t={since:.0f} s, and {one.pod} did not know it at t={one.t:.0f} s"
        )
        return say.finding(Verdict.FAIL, required, text, causes=(dns,), evidence=keys, violation=True)
    last = max(t for t in times.values() if t is not None)
    after = list(_went_on(evidence, unknown, last))
    if not after:
        text = (
            f"{say.listed(names)} is published from t={last:.0f} s; nobody was seen to look it up after that"
        )
        return say.finding(Verdict.INCONCLUSIVE, required, text, causes=(TOO_EARLY,), evidence=keys)
    early = list(dict.fromkeys(one.pod for one in unknown))
    text = (
        f"{say.listed(names)} is published from t={last:.0f} s, when its pod became ready; {len(early)} attempts ended "
        f"before that ({say.listed(early)}), {after[0].name} after it found the name"
    )
    number = Number("time until the last name was published", round(last, 3), "s", origin="EndpointSlice")
    return say.finding(
        Verdict.PASS,
        required,
        text,
        where=say.places(after),
        causes=(TOO_EARLY,),
        evidence=keys,
        numbers=(number,),
    )


def _went_on(evidence: Evidence, unknown: list[Unknown], t: float) -> Iterator[PodStory]:
    """Yield the pods of the same namespaces that ended well after a time and called no name unknown."""
    spaces = {one.story.namespace for one in unknown if one.story is not None}
    failed = {one.pod for one in unknown}
    for pod in pods(evidence):
        well = pod.phase == "Succeeded" or any(code == 0 for _, code in pod.exit_codes)
        if pod.namespace in spaces and pod.name not in failed and well and (pod.finished or 0.0) > t:
            yield pod
