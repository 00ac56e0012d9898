"""The static declaration of a requirement and the registry that all tools read."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pytest_gpucluster.plain import names
from pytest_gpucluster.plain import schedulers as known_schedulers
from pytest_gpucluster.requirement import row_ids
from pytest_gpucluster.requirement import verdict as v

ID_SHAPE = re.compile(r"^[A-Z]{2,5}-\d{3}$")

AREAS: Mapping[str, tuple[str, str]] = {
    "INV": ("inventory", "what the cluster says it has"),
    "GANG": ("gang", "gangs start whole or not at all"),
    "REF": ("refusal", "what cannot run is refused, by the component that must refuse"),
    "PLG": ("plugins", "the job plugins wire the ranks"),
    "LIFE": ("lifecycle", "jobs end, restart and are removed as documented"),
    "RDZV": ("rendezvous", "ranks find each other and form one world"),
    "ELA": ("elastic", "worlds shrink and grow"),
    "KUE": ("kueue", "admission by quota"),
    "NUMA": ("numa", "pods are aligned to NUMA nodes"),
    "FAB": ("fabric", "traffic goes over the declared fabric"),
    "MFU": ("mfu", "the GPUs deliver"),
    "CKPT": ("checkpoint", "checkpoints are whole and loadable"),
    "HLT": ("health", "devices are healthy and isolated"),
    "TRN": ("trainer", "other ways to write a gang"),
    "SITE": ("site", "what this site asks of its cluster"),
}
"""Id prefix -> (marker name, meaning)."""

SITE = "SITE"
"""Prefix of the requirements that a site writes itself. The catalogue has none of them, and no document stands behind
them; they are decided by judges like all others."""

DOCUMENTS: Mapping[str, str] = {
    "R": "gang-scheduled training recipe",
    "J": "Volcano Job manifest",
    "P": "private AI training infrastructure",
    "E": "distributed training as a platform service",
    "+": "beyond the documents",
}


class DeclarationError(Exception):
    """A requirement is declared wrongly; the text says which, where and what is allowed."""


class EvidenceLike(Protocol):
    """What judges get; the real type is `pytest_gpucluster.evidence.Evidence`."""

    @property
    def header(self) -> Mapping[str, Any]:
        """Return the header, with `given`."""


class ScenarioLike(Protocol):
    """What a declaration needs to know of a scenario."""

    @property
    def name(self) -> str:
        """Return the scenario's name, unique in a run."""


Judge = Callable[[Any, Mapping[str, Any]], v.Finding]
Presupposition = Callable[[Any, Mapping[str, Any]], v.Presupposed]


@dataclasses.dataclass(frozen=True)
class Requirement:
    """One row of the catalogue as an executable test.

    Attributes:
        id: catalogue id such as `GANG-002`; never changes, never reused.
        level: must, should or control.
        documents: letters of the documents that promise it; () for a requirement of a site's own.
        title: first line of the docstring.
        text: the normative sentence (rest of the docstring).
        scenario: the workload whose evidence is judged.
        judge: pure function of (evidence, given).
        presupposes: what must have been observed before the judge's word counts.
        defects: planted defects that must turn the row red, if a site declares some; those of shipped rows follow
            from the tables (`requirement.flips`).
        where: `module:function` of the test.
        smoke: it belongs to the few rows that answer in seconds (`-m smoke`).
        schedulers: declared schedulers that it is about; () for all.
    """

    id: str
    level: v.Level
    documents: tuple[str, ...]
    title: str
    text: str
    scenario: ScenarioLike
    judge: Judge
    presupposes: tuple[Presupposition, ...]
    defects: tuple[str, ...]
    where: str
    smoke: bool = False
    schedulers: tuple[str, ...] = ()

    @property
    def area(self) -> str:
        """Return the area, which is also the marker's name."""
        return AREAS[self.id.partition("-")[0]][0]

    def elsewhere(self, given: Mapping[str, Any]) -> v.Finding | None:
        """Return the finding of a row that is about another scheduler than the declared one, None for others."""
        declared = str(given.get("scheduler") or "")
        if not self.schedulers or not declared or declared in self.schedulers:
            return None
        about = " and ".join(self.schedulers)
        return v.Finding(
            v.Verdict.NOT_APPLICABLE,
            required=self.text,
            observed=f"the row is about {about}; the profile declares {declared}",
        )

    def decide(self, evidence: Any, given: Mapping[str, Any]) -> v.Finding:
        """Return the finding after the presuppositions had their say (rule 6 of the catalogue).

        A violation that was seen is a fail whatever else was missing. Otherwise a prerequisite observed to be
        false makes the row `environment`, one that was not observed makes it `inconclusive`.
        """
        elsewhere = self.elsewhere(given)
        if elsewhere is not None:
            return elsewhere
        finding = self.judge(evidence, given)
        if finding.verdict is v.Verdict.NOT_APPLICABLE or finding.violation:
            return finding
        states = [check(evidence, given) for check in self.presupposes]
        for held, verdict in ((False, v.Verdict.ENVIRONMENT), (None, v.Verdict.INCONCLUSIVE)):
            for state in states:
                if state.held is held:
                    return dataclasses.replace(
                        finding,
                        verdict=verdict,
                        observed=f"presupposed: {state.name}: {state.observed}",
                        causes=state.causes or finding.causes,
                        evidence=state.evidence or finding.evidence,
                    )
        return finding


class Registry:
    """All requirements that were declared, by id."""

    def __init__(self) -> None:
        """Start empty."""
        self._by_id: dict[str, Requirement] = {}

    def add(self, requirement: Requirement) -> None:
        """Register a requirement; the same function may be imported twice.

        Raises:
            DeclarationError: when another test already has the id.
        """
        known = self._by_id.get(requirement.id)
        if known is not None and known.where != requirement.where:
            raise DeclarationError(
                f"requirement {requirement.id} is declared twice: {known.where} and {requirement.where}"
            )
        self._by_id[requirement.id] = requirement

    def get(self, requirement_id: str) -> Requirement:
        """Return a requirement by id.

        Raises:
            DeclarationError: when there is none; names the nearest.
        """
        try:
            return self._by_id[requirement_id]
        except KeyError:
            hint = row_ids.hint(requirement_id, (each.id for each in self))
            raise DeclarationError(f"unknown requirement {requirement_id!r}{hint}") from None

    def __iter__(self) -> Iterator[Requirement]:
        """Yield requirements in catalogue order: area, then number."""
        order = list(AREAS)
        return iter(sorted(self._by_id.values(), key=lambda r: (order.index(r.id.partition("-")[0]), r.id)))

    def __len__(self) -> int:
        """Return how many are registered."""
        return len(self._by_id)


REGISTRY = Registry()
"""The one registry: filled at import of the suites, read by every tool."""

F = TypeVar("F", bound=Callable[..., object])


def requirement(
    requirement_id: str,
    *,
    level: str,
    documents: str = "",
    scenario: ScenarioLike,
    judge: Judge | None = None,
    presupposes: Sequence[Presupposition] = (),
    defects: Sequence[str] = (),
    smoke: bool = False,
    schedulers: Sequence[str] = (),
    registry: Registry = REGISTRY,
) -> Callable[[F], F]:
    """Declare a test function to be the requirement `requirement_id`.

    The docstring is the normative text: its first line the title, the rest the sentence with MUST or SHOULD.

    Args:
        requirement_id: area and three digits, such as `GANG-002`; those of the area SITE are a site's own.
        level: must, should or control.
        documents: letters of the documents that promise it, parted by blanks. Only `SITE` rows may leave it out.
        scenario: the workload whose evidence is judged.
        judge: pure function of (evidence, given).
        presupposes: what must have been observed before the judge's word counts.
        defects: planted defects that must turn a requirement of a site's own red.
        smoke: it belongs to the few rows that answer in seconds (`-m smoke`).
        schedulers: declared schedulers that it is about; () for all.
        registry: where it is entered.

    Raises:
        DeclarationError: malformed id, unknown level or document, no document, no judge, missing docstring, duplicate
            id.
    """

    def declare(function: F) -> F:
        name = getattr(function, "__qualname__", "?")
        where = f"{function.__module__}:{name}"
        title, text = _docstring(function, where)
        declared = Requirement(
            id=_checked_id(requirement_id, where),
            level=_checked_level(level, where),
            documents=_checked_documents(documents, requirement_id, where),
            title=title,
            text=text,
            scenario=scenario,
            judge=_checked_judge(judge, requirement_id, where),
            presupposes=tuple(presupposes),
            defects=tuple(defects),
            where=where,
            smoke=smoke,
            schedulers=_checked_schedulers(schedulers, where),
        )
        registry.add(declared)
        function.__gpucluster_requirement__ = declared  # type: ignore[attr-defined]
        return function

    return declare


def is_site(requirement_id: str) -> bool:
    """Report whether an id is that of a requirement of a site's own."""
    return requirement_id.partition("-")[0] == SITE


def requirement_of(function: object) -> Requirement | None:
    """Return the requirement that a test function declares, if any."""
    found = getattr(function, "__gpucluster_requirement__", None)
    return found if isinstance(found, Requirement) else None


def _docstring(function: object, where: str) -> tuple[str, str]:
    doc = inspect.getdoc(function) or ""
    title, _, text = doc.partition("\n")
    if not title.strip() or not text.strip():
        raise DeclarationError(
            f"{where}: a requirement needs a docstring: a title line, an empty line, the MUST sentence"
        )
    return title.strip().rstrip("."), " ".join(text.split())


def _checked_id(requirement_id: str, where: str) -> str:
    prefix = requirement_id.partition("-")[0]
    if not ID_SHAPE.match(requirement_id) or prefix not in AREAS:
        raise DeclarationError(
            f"{where}: malformed requirement id {requirement_id!r}: "
            f"expected AREA-000 with an area of {', '.join(AREAS)}"
        )
    return requirement_id


def _checked_judge(judge: Judge | None, requirement_id: str, where: str) -> Judge:
    if not callable(judge):
        raise DeclarationError(
            f"{where}: {requirement_id} has no judge: expected a function of (evidence, given), got {judge!r}"
        )
    return judge


def _checked_level(level: str, where: str) -> v.Level:
    try:
        return v.Level(level)
    except ValueError:
        raise DeclarationError(
            f"{where}: unknown level {level!r}{names.did_you_mean(level, list(v.Level))}"
        ) from None


def _checked_schedulers(listed: Sequence[str], where: str) -> tuple[str, ...]:
    for name in listed:
        if name not in known_schedulers.NAMES:
            hint = names.did_you_mean(name, known_schedulers.NAMES)
            raise DeclarationError(f"{where}: unknown scheduler {name!r}{hint}")
    return tuple(listed)


def _checked_documents(documents: str, requirement_id: str, where: str) -> tuple[str, ...]:
    letters = tuple(documents.split())
    if not letters and not is_site(requirement_id):
        raise DeclarationError(
            f"{where}: {requirement_id} names no document: expected one or more of {' '.join(DOCUMENTS)} "
            f"(only {SITE} requirements may leave it out)"
        )
    for letter in letters:
        if letter not in DOCUMENTS:
            raise DeclarationError(
                f"{where}: unknown document {letter!r}{names.did_you_mean(letter, DOCUMENTS)}"
            )
    return letters
