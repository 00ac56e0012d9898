"""Recorded runs, judged again: per row and run the verdict, when its evidence was taken, and on which nodes."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_gpucluster.acceptance import queues
from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log import fields, ingest
from pytest_gpucluster.evidence.objects import clusters
from pytest_gpucluster.plain import names, times
from pytest_gpucluster.report import answer, identity, record, verify
from pytest_gpucluster.requirement import Registry

DECIDED = ("pass", "fail")

_CUT = re.compile(r"\band \d+ (?:more|others)\b")
"""The end of a list that was too long."""


class RunError(Exception):
    """A run that cannot be used as evidence; the text is one line.

    Attributes:
        status: exit status of the command.
    """

    def __init__(self, text: str, status: int) -> None:
        """Take the line and the exit status."""
        super().__init__(text)
        self.status = status


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One row, decided in one run.

    Attributes:
        row: its id.
        verdict: the verdict, decided again from the evidence.
        run: id of the run.
        at: when its evidence was frozen; None where the evidence does not say.
        nodes: GPU nodes on which it was tried, or of which it read.
        red: those of them that a failure names; all of them if it names none.
        observed: what was seen.
        fix: the first fix of a finding that is red, "" without one.
    """

    row: str
    verdict: str
    run: str
    at: datetime | None
    nodes: frozenset[str]
    red: frozenset[str]
    observed: str
    fix: str = ""

    @property
    def decided(self) -> bool:
        """Report whether it is a pass or a fail."""
        return self.verdict in DECIDED


@dataclasses.dataclass(frozen=True)
class Run:
    """One run whose files are as they were sealed and whose verdicts were reached again.

    Attributes:
        folder: its folder.
        id: its name.
        digest: SHA-256 that stands for all its files.
        profile: the declaration under which it ran.
        cluster: what its evidence shows of the cluster.
        attempts: its rows, by id.
        built: ids of the rows that its version had a test for.
        distrust: why its passes do not count: left-overs, no end, a damaged record.
        planted: defects that were planted on purpose: nothing of it counts.
        ended: when it ended.
        seen_queues: the queues that its evidence shows, by kind and name.
        reused: folder of the run whose evidence it judged, "" if it took its own.
    """

    folder: Path
    id: str
    digest: str
    profile: Mapping[str, Any]
    cluster: clusters.Cluster
    attempts: Mapping[str, Attempt]
    built: frozenset[str]
    distrust: tuple[str, ...]
    planted: tuple[str, ...]
    ended: str
    seen_queues: Mapping[tuple[str, str], queues.Queue] = dataclasses.field(default_factory=dict)
    reused: str = ""

    def only_failures(self) -> "Run":
        """Return the run without its passes."""
        kept = {row: each for row, each in self.attempts.items() if each.verdict != "pass"}
        return dataclasses.replace(self, attempts=kept)


@dataclasses.dataclass(frozen=True)
class _Place:
    """What one file of evidence says of when and where it was taken, in which run, and of which planted defects."""

    at: datetime | None
    bound: frozenset[str]
    cluster: clusters.Cluster
    seen_queues: Mapping[tuple[str, str], queues.Queue]
    run: str
    planted: tuple[str, ...]


def each_once(found: Iterable[Run]) -> list[Run]:
    """Return runs without copies of one another.

    Raises:
        RunError: two of one name differ: one of them is not what was run.
    """
    kept: dict[str, Run] = {}
    for run in found:
        other = kept.setdefault(run.id, run)
        if other.digest != run.digest:
            raise RunError(
                f"{other.folder} and {run.folder} are both the run {run.id}, and differ: leave out the one that was "
                "changed, or recorded under a name that was taken",
                verify.TAMPERED,
            )
    return list(kept.values())


class Reading:
    """Reads evidence files and remembers when and where each was taken.

    Attributes:
        places: name of the file -> what it says.
    """

    def __init__(self) -> None:
        """Start with none."""
        self.places: dict[str, _Place] = {}

    def __call__(self, path: Path) -> Evidence:
        """Read a file."""
        evidence = ingest.read(path)
        self.places[path.name] = _place(evidence)
        return evidence


def read(folder: Path, registry: Registry | None = None) -> Run:
    """Judge a run again and return what it shows.

    Raises:
        RunError: no record, or files that were changed (3); rows whose module was not named (2).
    """
    reading = Reading()
    try:
        found = verify.verify(folder, registry=registry, read=reading)
        report = record.load(folder)
    except record.RecordError as error:
        raise RunError(str(error), verify.TAMPERED) from None
    if found.problems:
        more = (
            f" (and {len(found.problems) - 1} more; see `gpucluster verify {folder}`)"
            if len(found.problems) > 1
            else ""
        )
        raise RunError(f"{folder}: the record does not hold: {found.problems[0]}{more}", verify.TAMPERED)
    if found.unnamed:
        raise RunError(f"{folder}: {found.unnamed[0]}", verify.OPEN_MODULE)
    return _run(folder, report, found.digest, reading.places)


def of_itself(folder: Path, report: Mapping[str, Any], reading: Reading) -> Run:
    """Return what a run shows whose verdicts were reached just now, with no digest: it is not sealed yet.

    Args:
        folder: its folder.
        report: its record so far.
        reading: has read its evidence, or some of it: the rest is read here.
    """
    for item in (*report["scenarios"], *report["requirements"]):
        path = folder / str(item["evidence"] or "")
        if path.name not in reading.places and path.is_file():
            reading(path)
    return _run(folder, report, "", reading.places)


def _run(folder: Path, report: Mapping[str, Any], digest: str, places: Mapping[str, _Place]) -> Run:
    rows = report["requirements"]
    planted = list(
        dict.fromkeys([*answer.planted(report), *(name for each in places.values() for name in each.planted)])
    )
    doubts = answer.distrust(report) if not planted else []
    doubts += _foreign(report, places)
    if report["run"]["interrupted"]:
        doubts.append("the run did not finish")
    told = sorted(places.values(), key=_when)
    built = {row["id"] for row in (*rows, *report["not_run"])}
    return Run(
        folder,
        str(report["run"]["id"]) or folder.resolve().name,
        digest,
        report["profile"]["values"],
        clusters.together(place.cluster for place in told),
        {row["id"]: _attempt(row, str(report["run"]["id"]), places) for row in rows},
        frozenset(built),
        tuple(doubts),
        tuple(planted),
        str(report["run"]["ended"] or ""),
        queues.together(place.seen_queues for place in told),
        str(report["cluster"].get("reused") or ""),
    )


def _foreign(report: Mapping[str, Any], places: Mapping[str, _Place]) -> Iterator[str]:
    """Yield which files are evidence of another run; one that only judged such a run says so."""
    own = names.safe_name(str(report["run"]["id"]))
    for name, place in sorted(places.items()):
        if place.run and place.run != own and not report["cluster"].get("reused"):
            yield f"{name} is evidence of another run: {place.run}"


def _when(place: _Place) -> float:
    return place.at.timestamp() if place.at is not None else 0.0


def _place(evidence: Evidence) -> _Place:
    source = fields.sub(evidence.header, "source")
    try:
        at = times.parse_time(fields.text(source, "frozen"))
    except ValueError:
        at = None
    bound = clusters.tried_on(evidence)
    return _Place(
        at, bound, clusters.of_evidence(evidence), queues.of_evidence(evidence), fields.text(source, "run"),
        tuple(map(str, source.get("defects") or ())),
    )  # fmt: skip


def _attempt(row: Mapping[str, Any], run: str, places: Mapping[str, _Place]) -> Attempt:
    place = places.get(Path(str(row["evidence"] or "")).name)
    finding = row["finding"]
    causes = finding.get("causes") or [{}]
    nodes: frozenset[str] = frozenset()
    if place is not None:
        nodes = identity.tried(row, frozenset(place.cluster.nodes), place.bound)
    verdict, observed = row["verdict"], str(finding["observed"])
    if answer.is_flaky(row):
        # What passed when it was tried again was not shown: the next training job gets one attempt.
        verdict, observed = (
            "inconclusive",
            f"it passed only when it was repeated, after {', '.join(row['earlier'])}",
        )
    return Attempt(
        row["id"], verdict, run, place.at if place is not None else None, nodes,
        _red(finding, nodes) if verdict == "fail" else frozenset(), observed, str(causes[0].get("fix") or ""),
    )  # fmt: skip


def _red(finding: Mapping[str, Any], nodes: Iterable[str]) -> frozenset[str]:
    """Return the nodes that a failure names, all on which it was tried if it names none."""
    text = " ".join([str(finding["observed"]), *map(str, finding.get("where") or ())])
    every = frozenset(nodes)
    if _CUT.search(text):
        return every  # it names some of them, and nobody knows which are the others
    named = {name for name in every if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text)}
    return frozenset(named) or every
