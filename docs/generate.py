"""Write docs/reference from the registry: `python -m docs.generate`."""

import pathlib
from collections.abc import Mapping

from docs import settings
from pytest_gpucluster.mutants import MUTANTS
from pytest_gpucluster.provider import known_defects
from pytest_gpucluster.report.suites import load_suites
from pytest_gpucluster.requirement import AREAS, DOCUMENTS, REGISTRY, Requirement
from suites.defects import FLIPS, MUTANT_FLIPS
from suites.defects.reasons import DECLARED_BY_NO_ROW


def requirements_page() -> str:
    """Return the page of all requirements that are built."""
    letters = "; ".join(f"{letter} {title}" for letter, title in DOCUMENTS.items())
    out = ["# Requirements", "", f"Generated from the suite. Documents: {letters}."]
    for area, meaning in AREAS.values():
        rows = [row for row in REGISTRY if row.area == area and ".suites" in f".{row.where}"]
        if not rows:
            continue
        out += ["", f"## {area}", "", f"{meaning[0].upper()}{meaning[1:]}."]
        for row in rows:
            out += [
                "",
                f"### {row.id}: {row.title}",
                "",
                row.text,
                "",
                _facts(row),
            ]
    return "\n".join(out) + "\n"


def _facts(row: Requirement) -> str:
    defects = ", ".join(f"`{name}`" for name in row.defects)
    return (
        f"Level {row.level.value}; documents {' '.join(row.documents)}; scenario `{row.scenario.name}`; "
        f"turned red by {defects}."
    )


def defects_page() -> str:
    """Return the page of all planted defects and the rows that each turns red."""
    live = known_defects()
    mutants = {name: meaning for name, (meaning, _) in MUTANTS.items()}
    return "\n".join(
        [
            "# Planted defects",
            "",
            "Generated from the tables. `make defects` compares them with what it measures. A row that is not listed",
            "stays `pass` under the defect. `environment` and `inconclusive` name the precondition that failed.",
            "",
            "## Live defects",
            "",
            "Here the embedded cluster departs from documented behaviour: `pytest suites --gpucluster-defect=NAME`.",
            "",
            *_table(live, FLIPS, DECLARED_BY_NO_ROW),
            "",
            "## Evidence mutants",
            "",
            "Changes to the recorded evidence of a passing run. Each of them is tried on every scenario and every row.",
            "",
            *_table(mutants, MUTANT_FLIPS, {}),
            "",
            "## Row by row",
            "",
            *_by_row(),
            "",
        ]
    )


def _table(
    known: Mapping[str, str], flips: Mapping[str, Mapping[str, str]], otherwise: Mapping[str, str]
) -> list[str]:
    out = ["| defect | what it does | rows that it turns red |", "| --- | --- | --- |"]
    for name, meaning in sorted(known.items()):
        rows = ", ".join(f"{row} {verdict}" for row, verdict in sorted(flips.get(name, {}).items()))
        out.append(f"| `{name}` | {meaning} | {rows or otherwise[name]} |")
    return out


def _by_row() -> list[str]:
    out = ["| row | turned red by (live) | turned red by (mutants) |", "| --- | --- | --- |"]
    for row in REGISTRY:
        cells = [
            ", ".join(f"`{name}`" for name in sorted(table) if row.id in table[name])
            for table in (FLIPS, MUTANT_FLIPS)
        ]
        out.append(f"| {row.id} | {' | '.join(cell or '(none)' for cell in cells)} |")
    return out


def pages() -> dict[str, str]:
    """Return file name -> text of every generated page."""
    load_suites()
    return {
        "requirements.md": requirements_page(),
        "defects.md": defects_page(),
        "profile.md": settings.profile_page(),
        "options.md": settings.options_page(),
    }


def main() -> None:
    """Write the pages."""
    folder = pathlib.Path(__file__).resolve().parent / "reference"
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
