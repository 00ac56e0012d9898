"""Which rows a profile key switches on: found by leaving the key out, never written by hand.

A row is not applicable for one of three reasons: it names other schedulers, its scenario finds nothing to try before it
does anything, or its judge finds nothing declared to compare with. The first is read from the registry. The second is
tried on a stage that knows its cluster and lets nothing be done. The third is tried on the recorded evidence on which
every row passes, as if its profile had left the key out, or had declared this key alone.
"""

import copy
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pytest_gpucluster import profile as profiles
from pytest_gpucluster.evidence import Evidence, read
from pytest_gpucluster.plain import schedulers
from pytest_gpucluster.profile.fabric import Fabric
from pytest_gpucluster.profile.mfu import Mfu
from pytest_gpucluster.profile.model import IMAGES, Profile
from pytest_gpucluster.provider import protocol
from pytest_gpucluster.requirement import Requirement, Verdict
from pytest_gpucluster.scenario import NotApplicable, Scenario, Stage
from pytest_gpucluster.workload import WorkloadError, dialect_for

RECORDED = Path(__file__).resolve().parent.parent / "fixtures" / "recorded"
"""Evidence of a passing run, one file a scenario: on GPUs in `host`, else on the embedded cluster in `embedded`."""

READ_AS = {"mfu.baseline": "mfu.baseline_figures"}
"""Key -> where the evidence's header has what the key names, if it is not at the same place."""
WAYS = ("further_schedulers", "workload.further")
"""Keys that declare further ways to write a gang."""
LISTED_WITH = {"fabric.floor_file": "fabric.floors", "mfu.floor_file": "mfu.floors"}
"""Key that names a shipped list -> key whose own list the scenario joins it to."""


class _Acts(Exception):  # noqa: N818 (a state of affairs, not a fault)
    """A scenario does something: it has found something to try."""


class _Cluster:
    """A cluster of real machines that has all images."""

    name, provider = "real", "existing"
    images: Mapping[str, str] = dict.fromkeys(IMAGES, "image")
    features = frozenset({protocol.PODS_RUN, protocol.REBOOT})


class _Bare:
    """A stage with a profile, its dialect and a cluster, on which nothing can be done."""

    cluster = _Cluster()

    def __init__(self, profile: Profile, name: str) -> None:
        """Take the profile and the scenario's name."""
        self.profile, self.name = profile, name
        self.dialect = dialect_for(profile.scheduler, profile.runs_in)
        self.given: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        raise _Acts(name)


def by_key(rows: Sequence[Requirement], empty: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """Return, for each key that a profile may leave out, the ids of the rows that it switches on.

    Args:
        rows: the rows, in order.
        empty: path of each such key, such as `fabric.hcas`, and the value that it has if it is left out.
    """
    found: dict[str, list[str]] = {}
    for row in rows:
        for key in dict.fromkeys((*_of_scenario(_scenario(row), empty), *_of_judge(row, empty))):
            found.setdefault(key, []).append(row.id)
    found |= {file: found[own] for file, own in LISTED_WITH.items() if own in found}
    return {key: tuple(ids) for key, ids in found.items()}


def without_pods(rows: Iterable[Requirement]) -> tuple[str, ...]:
    """Return the ids of the rows that apply although no pod runs (`nodes: simulated`)."""
    return tuple(row.id for row in rows if not _scenario(row).needs.pods_run)


def by_scheduler(rows: Sequence[Requirement]) -> Mapping[str, tuple[str, ...]]:
    """Return, for each scheduler that a profile may declare, the ids of the rows that are not about it."""
    return {
        name: tuple(row.id for row in rows if not _applies(row, name))
        for name in (schedulers.VOLCANO, schedulers.NATIVE, schedulers.KUEUE, schedulers.DEFAULT)
    }


def _applies(row: Requirement, scheduler: str) -> bool:
    scenario, profile = _scenario(row), _full().model_copy(update={"scheduler": scheduler})
    if row.elsewhere({"scheduler": scheduler}) is not None or not _tries(scenario, profile):
        return False
    evidence = _passing(scenario.name)
    unseen = set(scenario.watched(_full())) - set(scenario.watched(profile))
    lines = (line for line in evidence.lines if line.kind not in unseen)
    seen = Evidence(lines, header=evidence.header, spans=evidence.spans)
    return _judged(row, seen, {**evidence.given, "scheduler": scheduler})


def _scenario(row: Requirement) -> Scenario:
    return cast("Scenario", row.scenario)


@functools.cache
def _full() -> Profile:
    """Return a profile that declares all sections, on GPUs."""
    embedded = profiles.load("embedded", env={}).profile
    return embedded.model_copy(update={"fabric": Fabric(transport="NET/IB"), "mfu": Mfu()})


def _of_scenario(scenario: Scenario, empty: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys without which a scenario finds nothing to try."""
    yield from (section for section in scenario.needs.sections if section in empty)
    # Ways to write a gang are declared by two keys of which either suffices; a workload kind of its own by one.
    ways = WAYS if scenario.needs.further else WAYS[-1:] if scenario.needs.workload else ()
    yield from (key for key in ways if key in empty)
    if _tries(scenario, _full()):
        for key, value in empty.items():
            if (
                "." not in key
                and key not in scenario.needs.sections
                and not _tries(scenario, _full().model_copy(update={key: value}))
            ):
                yield key


def _tries(scenario: Scenario, profile: Profile) -> bool:
    """Report whether a scenario does something under a profile."""
    try:
        scenario.run(cast("Stage", _Bare(profile, scenario.name)))
    except (NotApplicable, WorkloadError):
        return False
    except _Acts:
        return True
    return True


def _of_judge(row: Requirement, empty: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys without which, or with which alone, the judge of a row has something to compare with."""
    evidence = _passing(row.scenario.name)
    leaves = {
        key: value for key, value in empty.items() if not any(each.startswith(f"{key}.") for each in empty)
    }
    told = {key: value for key, value in leaves.items() if _dig(evidence.given, READ_AS.get(key, key))}
    sections = {key: value for key, value in empty.items() if key not in leaves and _dig(evidence.given, key)}
    yield from (
        key
        for key, value in sections.items()
        if not _judged(row, evidence, _with(evidence.given, {key: value}))
    )
    nothing = _judged(row, evidence, _with(evidence.given, told))
    for key, value in told.items():
        others = {other: told[other] for other in told if other != key}
        if not _judged(row, evidence, _with(evidence.given, {key: value})) or (
            not nothing and _judged(row, evidence, _with(evidence.given, others))
        ):
            yield key


def _judged(row: Requirement, evidence: Evidence, given: Mapping[str, Any]) -> bool:
    return row.judge(evidence, given).verdict is not Verdict.NOT_APPLICABLE


@functools.cache
def _passing(scenario: str) -> Evidence:
    """Return the recorded evidence of a scenario, on which its rows pass."""
    return read(
        next(path for of in ("host", "embedded") if (path := RECORDED / of / f"{scenario}.jsonl").is_file())
    )


def _dig(told: Any, path: str) -> Any:
    for part in path.split("."):
        told = told.get(part) if isinstance(told, Mapping) else None
    return told


def _with(given: Mapping[str, Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what judges are told if keys have other values."""
    told = copy.deepcopy(dict(given))
    for key, value in values.items():
        *above, last = READ_AS.get(key, key).split(".")
        section = _dig(told, ".".join(above)) if above else told
        if section and last in section:
            section[last] = value
    return told
