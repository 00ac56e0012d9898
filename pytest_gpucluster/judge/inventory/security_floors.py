"""INV-011: nothing under containers is older than a published fix: driver, toolkit, runc, adapter firmware."""

import dataclasses
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import node_software, node_status
from pytest_gpucluster.evidence.objects.component_versions import Seen
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.plain import versions
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = "driver, container toolkit, runc and adapter firmware, as far as they are known, are not below their floors"

COMPONENTS = ("driver", "toolkit", "runc", "firmware")
_BRANCH: Mapping[str, int] = {"driver": 1, "toolkit": 0, "runc": 2, "firmware": 1}
"""Component -> how many numbers of a version name its branch."""
_SKIPPED: Mapping[str, int] = {"firmware": 1}
"""Component -> numbers before the branch: those of firmware say which adapter it is for."""

BELOW = Cause(
    "a fix that the advisory asks for has not been installed on these nodes",
    "update the component to the floor or above (drain the node first), or name newer floors with their date under "
    "`security` in the profile, if a package of your distribution has the fix under an older number",
)
ENDED = Cause(
    "the branch gets no fixes any more",
    "move to a branch that is maintained; its floor is in the list",
)
UNLISTED = Cause(
    "the list has no floor for this branch: it is newer than the list, or was never in it",
    "name a newer list under `security` in the profile (`dated` and `floors`)",
)
UNTOLD = Cause(
    "no node label and no DaemonSet of the GPU Operator tells the version",
    "run feature discovery for GPUs, which labels the driver; for others name a node label with the version under "
    "`security.labels` in the profile, or leave the component out of `security.required`",
)


@dataclasses.dataclass(frozen=True)
class Compared:
    """A version and the floor of its branch.

    Attributes:
        seen: the version, and who has it.
        floor: the floor, None where the list has none for its branch.
        below: whether it is below the floor, or its branch has ended.
    """

    seen: Seen
    floor: Mapping[str, Any] | None
    below: bool

    @property
    def shown(self) -> str:
        """Return `driver 570.86.15 on Node/a, below 570.211.01 (NVIDIA 5747)`."""
        text = f"{self.seen.component} {versions.printed(self.seen.text)} of {self.seen.where}"
        if self.floor is None:
            return f"{text}: no floor for its branch"
        least = "a branch that has ended" if self.floor.get("ended") else f"below {self.floor.get('version')}"
        return f"{text}, {least} ({self.floor.get('advisory')})" if self.below else text


@subjects.judge
def not_below_floors(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge INV-011."""
    told = fields.sub(given, "security")
    floors = fields.items(told, "floors")
    resource = str(given.get("gpu_resource") or "nvidia.com/gpu")
    every = node_software.seen(evidence, resource, fields.sub(told, "labels"))
    compared = [_compared(one, floors) for one in every]
    below = [one for one in compared if one.below]
    aged = _aged(evidence, told)
    of = wording.Findings(
        REQUIRED,
        evidence=tuple(dict.fromkeys(one.key for one in every))[: wording.MANY],
        repeat=("kubectl get nodes --show-labels",),
        facts={"versions": {f"{one.component} of {one.where}": one.text for one in every[:100]}, **told},
    )
    if below:
        return of.fail(
            f"{wording.listed([one.shown for one in below], 4)}; {aged}",
            violation=True,
            where=wording.shown([f"{one.seen.where}: {one.seen.component} {one.seen.text}" for one in below]),
            causes=tuple(dict.fromkeys(ENDED if (one.floor or {}).get("ended") else BELOW for one in below)),
            numbers=(Number("versions below their floor", len(below), "versions", 0, aged),),
        )
    if not floors:
        return of.inconclusive("no list of floors was recorded")
    required = told.get("required")
    lacking = list(
        _lacking(evidence, resource, every, required if isinstance(required, Sequence) else ("driver",))
    )
    unknown = [one for one in compared if one.floor is None]
    if lacking or unknown:
        text = wording.listed([*lacking, *(one.shown for one in unknown)], 4)
        causes = (*([UNTOLD] if lacking else []), *([UNLISTED] if unknown else []))
        return of.inconclusive(f"{text}; {aged}", causes=causes)
    if not compared:
        return of.not_applicable(
            f"no version is known, and the profile requires none (security.required); {aged}"
        )
    untold = [name for name in COMPONENTS if not any(one.component == name for one in every)]
    text = wording.listed([f"{name} {_versions(every, name)}" for name in COMPONENTS if name not in untold])
    more = f"; not known from inside the cluster: {wording.listed(untold)}" if untold else ""
    number = Number("versions below their floor", 0, "versions", 0, aged)
    return of.passed(f"not below their floors: {text}{more}; {aged}", numbers=(number,))


def _compared(one: Seen, floors: Sequence[Mapping[str, Any]]) -> Compared:
    if one.version is None:
        return Compared(one, None, below=False)
    numbers = one.version[_SKIPPED.get(one.component, 0) :]
    branch = ".".join(map(str, numbers[: _BRANCH.get(one.component, 0)]))
    for floor in floors:
        if floor.get("component") == one.component and str(floor.get("branch") or "") == branch:
            least = versions.parse(str(floor.get("version") or "")) or ()
            padded = numbers + (0,) * (len(least) - len(numbers))
            return Compared(one, floor, below=bool(floor.get("ended")) or padded < least)
    return Compared(one, None, below=False)


def _lacking(
    evidence: Evidence, resource: str, every: Sequence[Seen], required: Sequence[object]
) -> Iterator[str]:
    """Say of which required component no version is known: on a node, or at all where it is told for all nodes."""
    names = [machine.name for machine in node_status.gpu_nodes(evidence, resource)]
    for component in map(str, required):
        known = {one.where for one in every if one.component == component}
        silent = [name for name in names if f"Node/{name}" not in known]
        everywhere = any(where.startswith("DaemonSet/") for where in known)
        if not names or (silent and not everywhere):
            yield f"the version of {component} is not known on {wording.listed(silent, 4) or 'any GPU node'}"


def _versions(every: Sequence[Seen], component: str) -> str:
    found = (versions.printed(one.text) for one in every if one.component == component)
    return " and ".join(dict.fromkeys(found))


def _aged(evidence: Evidence, told: Mapping[str, Any]) -> str:
    """Return of which day the list is, and how old it was when the evidence was frozen."""
    day = str(told.get("dated") or "")
    frozen = fields.text(evidence.header, "source", "frozen")[:10]
    try:
        age = (dt.date.fromisoformat(frozen) - dt.date.fromisoformat(day)).days
    except ValueError:
        return f"floors of {day or 'an unknown day'}"
    return f"floors of {day}, {wording.count(max(age, 0), 'day')} old"
