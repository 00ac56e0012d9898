"""What of a scenario's evidence is compared between two clusters, as lines of text that a reviewer can read.

Per object: the distinct states that it went through, with phase, whether it is bound, whether it is being deleted, and
its conditions with status and reason. Objects that can stand for each other (the pods of one gang) are one. Per
namespace: the distinct events of the control plane with their masked messages. What kubelets say of containers and
how long anything took is not compared.
"""

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_gpucluster.evidence.log import recording
from tests.comparison.masks import anonymous

COMPARED = (
    "Pod", "PodGroup", "Job.batch", "Job.batch.volcano.sh", "PodGroup.scheduling.k8s.io",
    "Workload.scheduling.k8s.io", "Workload", "ClusterQueue", "LocalQueue",
)  # fmt: skip
CLUSTER_WIDE = ("ClusterQueue",)
KUBELET = "kubelet"
CONTROL_PLANE = re.compile(r"N node\(s\) had untolerated taint\(s\)(, )?")
"""What schedulers add where a node takes no pods, such as the control plane of a kind cluster."""

Obj = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, order=True)
class Seen:
    """One thing that was seen.

    Attributes:
        what: `state` or `event`.
        of: kind and masked name.
        text: the state or the event.
    """

    what: str
    of: str
    text: str

    @property
    def kind(self) -> str:
        """Return the kind that has to be watched for this to be seen."""
        return "Event" if self.what == "event" else self.of.partition("/")[0]


@dataclasses.dataclass(frozen=True)
class Streams:
    """What one cluster did in one scenario.

    Attributes:
        seen: states and events.
        before: pairs of states of one kind of object of which the first always came before the second.
        watched: kinds that were watched; empty: it is not said.
    """

    seen: frozenset[Seen]
    before: frozenset[tuple[Seen, Seen]]
    watched: frozenset[str] = frozenset()

    def of_kinds(self, watched: frozenset[str]) -> "Streams":
        """Return what is of some kinds: another watch may be open from a scenario before, and see more."""
        if not watched:
            return self
        seen = frozenset(each for each in self.seen if each.kind in watched)
        before = frozenset(pair for pair in self.before if pair[0].kind in watched)
        return Streams(seen, before, watched)


def read(path: Path) -> Streams:
    """Return what a file of evidence, or the events of a recording, says."""
    with path.open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return of(recording.normalised(lines).events)


def of(events: Iterable[Obj]) -> Streams:
    """Return what a recording says."""
    lives: dict[str, list[Seen]] = {}
    seen: set[Seen] = set()
    watched: set[str] = set()
    for line in events:
        if line.get("type") == "SPAN":
            watched.add(line["kind"])
        obj = line.get("object")
        if not isinstance(obj, Mapping) or not _ours(line, obj):
            continue
        if line["kind"] == "Event":
            seen.update(_event(obj))
        elif line["kind"] in COMPARED:
            now = Seen(
                "state", f"{line['kind']}/{anonymous(obj['metadata']['name'])}", state(line["kind"], obj)
            )
            life = lives.setdefault(obj["metadata"]["uid"], [])
            if now not in life:
                life.append(now)
    seen.update(each for life in lives.values() for each in life)
    return Streams(frozenset(seen), frozenset(_always_before(lives.values())), frozenset(watched))


def _ours(line: Obj, obj: Obj) -> bool:
    namespace = str(obj["metadata"].get("namespace") or "")
    return line.get("kind") in CLUSTER_WIDE or namespace.startswith("case-")


def state(kind: str, obj: Obj) -> str:
    """Return the state of an object as words."""
    status, spec, meta = obj.get("status") or {}, obj.get("spec") or {}, obj["metadata"]
    words = [str(status.get("phase") or (status.get("state") or {}).get("phase") or "")]
    words += ["suspended"] if spec.get("suspend") else []
    words += ["bound"] if spec.get("nodeName") else []
    words += ["gated"] if spec.get("schedulingGates") else []
    words += ["deleted"] if meta.get("deletionTimestamp") else []
    conditions = status.get("conditions") or []
    if kind == "Job.batch.volcano.sh":
        words += [str(each.get("status")) for each in conditions]
    else:
        words += sorted(_condition(each) for each in conditions)
    return " ".join(word for word in words if word) or "nothing yet"


def _condition(each: Obj) -> str:
    reason = f"({anonymous(str(each['reason']))})" if each.get("reason") else ""
    return f"{each.get('type')}={each.get('status')}{reason}"


def _event(obj: Obj) -> Iterator[Seen]:
    reporter = obj.get("reportingComponent") or (obj.get("source") or {}).get("component") or ""
    if reporter == KUBELET:
        return
    about = obj["involvedObject"]
    of_ = f"{about['kind']}/{anonymous(str(about['name']))}"
    said = CONTROL_PLANE.sub("", anonymous(obj.get("message") or ""))
    yield Seen(
        "event",
        of_,
        f"{obj.get('type')} {obj['reason']} by {reporter}: {said}",
    )


def _always_before(lives: Iterable[list[Seen]]) -> Iterator[tuple[Seen, Seen]]:
    """Yield pairs of states in the order in which every object that had both had them."""
    pairs = {(a, b) for life in lives for place, a in enumerate(life) for b in life[place + 1 :]}
    yield from (pair for pair in pairs if pair[::-1] not in pairs)
