"""The matrix prints what it measured: each defect, and the rows that it turned."""

import json
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.defects.lab import Lab

FLIPS = "flips"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice between the cells of each defect and the full cross table."""
    parser.addoption(
        "--declared",
        action="store_true",
        help="under each live defect run only the rows that show it (cells.py); else the whole suite",
    )


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The cluster of this worker in which defects are switched."""
    with Lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[[str, Mapping[str, str]], None]:
    """Return the call that keeps what one defect turned, for the table at the end."""
    return lambda defect, flips: record_property(FLIPS, json.dumps([defect, dict(flips)]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table; from the reports, which also workers send."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    found = [text for report in reports for name, text in report.user_properties if name == FLIPS]
    table = dict(json.loads(text) for text in found)
    if table:
        from tests.defects import matrix  # late: an error in what it reads is one line of a test module

        terminalreporter.section("defects and the rows that they turn, as measured")
        terminalreporter.write_line(matrix.text(table))
