"""Two columns, requirement and verdict, for the table of pytest-html.

Functions for the hooks `pytest_html_results_table_header(cells)` and `pytest_html_results_table_row(report,
cells)`. pytest-html escapes nothing and ends the run when a row has more cells than the header, so both
functions add exactly the same two cells at the same place, also to rows of tests that are no requirement.
"""

import html
from collections.abc import Iterable, Mapping

REQUIREMENT_PROPERTY = "gpucluster.requirement"
VERDICT_PROPERTY = "gpucluster.verdict"
"""Names under which the hooks put id and verdict into `item.user_properties`, as text."""

MARKS = {"gpucluster.waived": "waived", "gpucluster.flaky": "flaky"}

_PLACE = 1


def _verdict(found: Mapping[str, str]) -> str:
    """Return the verdict; one that is waived, or came only when the test was repeated, says so."""
    verdict = found.get(VERDICT_PROPERTY, "")
    marks = [word for name, word in MARKS.items() if found.get(name)]
    return f"{verdict} ({', '.join(marks)})" if marks else verdict


def add_header(cells: list[str]) -> None:
    """Add the two header cells."""
    cells[_PLACE:_PLACE] = ["<th>Requirement</th>", "<th>Verdict</th>"]


def add_row(cells: list[str], user_properties: Iterable[tuple[str, object]]) -> None:
    """Add the two cells of a row; empty for a test that is no requirement."""
    found = {name: str(value) for name, value in user_properties}
    cells[_PLACE:_PLACE] = [
        f'<td class="col-requirement">{html.escape(found.get(REQUIREMENT_PROPERTY, ""))}</td>',
        f'<td class="col-verdict">{html.escape(_verdict(found))}</td>',
    ]
