"""The matrix prints what it measured: each defect, and the rows that it turned."""

from collections.abc import Callable, Mapping

import pytest

from tests.defects import matrix

MEASURED = pytest.StashKey[dict[str, Mapping[str, str]]]()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str, Mapping[str, str]], None]:
    """Return the call that keeps what one defect turned, for the table at the end."""
    table = request.config.stash.setdefault(MEASURED, {})

    def keep(defect: str, flips: Mapping[str, str]) -> None:
        table[defect] = flips

    return keep


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table."""
    table = config.stash.get(MEASURED, {})
    if table:
        terminalreporter.section("defects and the rows that they turn, as measured")
        terminalreporter.write_line(matrix.text(table))
