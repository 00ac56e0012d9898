"""All rows of the catalogue, built or not: what a report lists so that nothing is left out silently."""

import dataclasses
import functools
import importlib.resources
from collections.abc import Mapping
from typing import Any

import yaml

from pytest_gpucluster.requirement import declare
from pytest_gpucluster.requirement.verdict import Level

RUNS: Mapping[str, str] = {
    "e": "embedded cluster",
    "h": "one GPU host without Kubernetes",
    "k": "kind",
    "r": "real GPU cluster",
}
"""Where a row can run."""


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader of YAML, in C where there is one: each run reads the catalogue, its workers too."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the catalogue.

    Attributes:
        id: such as `GANG-002`; never changes, never reused.
        level: must, should or control.
        documents: letters of the documents that promise it (`declare.DOCUMENTS`).
        runs: letters of the places where it can run (`RUNS`).
        title: what must hold, in a few words.
    """

    id: str
    level: Level
    documents: tuple[str, ...]
    runs: tuple[str, ...]
    title: str

    @property
    def area(self) -> str:
        """Return the area, which is also the marker's name."""
        return declare.AREAS[self.id.partition("-")[0]][0]

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data for the record."""
        return {
            "id": self.id,
            "area": self.area,
            "level": self.level.value,
            "documents": list(self.documents),
            "runs": list(self.runs),
            "title": self.title,
        }


@functools.cache
def rows() -> tuple[Row, ...]:
    """Return every row in the order of the catalogue."""
    text = importlib.resources.files(__package__).joinpath("catalogue.yaml").read_text(encoding="utf-8")
    return tuple(
        Row(
            id=row_id,
            level=Level(level),
            documents=tuple(documents.split()),
            runs=tuple(runs),
            title=title,
        )
        for row_id, level, documents, runs, title in yaml.load(text, LOADER)  # noqa: S506 - a safe loader
    )


@functools.cache
def ids() -> frozenset[str]:
    """Return the id of every row."""
    return frozenset(known.id for known in rows())


def row(row_id: str) -> Row | None:
    """Return the row with this id, None when the catalogue has none (a row of the user's own)."""
    return next((known for known in rows() if known.id == row_id), None)


def order(row_id: str) -> tuple[int, str]:
    """Return the sort key that puts ids in catalogue order; areas that are unknown come last."""
    prefix = row_id.partition("-")[0]
    areas = list(declare.AREAS)
    return (areas.index(prefix) if prefix in areas else len(areas), row_id)


def disagreements(registry: declare.Registry) -> list[str]:
    """Return one line for each declaration whose level or documents differ from the catalogue.

    Requirements of a site's own are not in the catalogue and cannot differ from it.
    """
    lines: list[str] = []
    for declared in registry:
        if declare.is_site(declared.id):
            continue
        known = row(declared.id)
        if known is None:
            lines.append(f"{declared.id} ({declared.where}) is not in the catalogue")
            continue
        if known.level is not declared.level:
            lines.append(f"{declared.id}: level {declared.level} in the test, {known.level} in the catalogue")
        if sorted(known.documents) != sorted(declared.documents):
            lines.append(
                f"{declared.id}: documents {' '.join(declared.documents)} in the test, "
                f"{' '.join(known.documents)} in the catalogue"
            )
    return lines
