"""Write docs/reference from the registry: `python -m docs.generate`."""

import pathlib

from pytest_gpucluster.provider import known_defects
from pytest_gpucluster.report.suites import load_suites
from pytest_gpucluster.requirement import AREAS, DOCUMENTS, REGISTRY, Requirement
from suites.defects import FLIPS


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
    out = [
        "# Planted defects",
        "",
        "Generated from the tables. A row that is not named stays `pass` under the defect.",
        "",
        "| defect | what it does | rows that it turns red |",
        "| --- | --- | --- |",
    ]
    for name, meaning in sorted(known_defects().items()):
        flips = ", ".join(f"{row} {verdict}" for row, verdict in FLIPS.get(name, {}).items())
        out.append(f"| `{name}` | {meaning} | {flips or '(no row of the table)'} |")
    return "\n".join(out) + "\n"


def pages() -> dict[str, str]:
    """Return file name -> text of every generated page."""
    load_suites()
    return {"requirements.md": requirements_page(), "defects.md": defects_page()}


def main() -> None:
    """Write the pages."""
    folder = pathlib.Path(__file__).resolve().parent / "reference"
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
