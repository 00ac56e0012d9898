"""A kind cluster a worker for all tests of this folder; it stays, so that a second run need not make it."""

import pathlib
import shutil

import pytest

from pytest_gpucluster import provider
from pytest_gpucluster.provider.kind import engine
from tests.kind import lab
from tests.kind.misconfigurations import faults, table

PAGE = lab.ROOT / "docs" / "reference" / "misconfigurations.md"
SHOWN = "shown"
"""What tests tell that is shown as it is."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remove what the last run of these tests wrote; this one's stays until the next."""
    if not hasattr(session.config, "workerinput") and session.config.option.markexpr == "kind":
        shutil.rmtree(lab.REPORTS, ignore_errors=True)


@pytest.fixture(scope="session")
def written(worker_id: str) -> pathlib.Path:
    """The folder of what this worker's tests write."""
    folder = lab.REPORTS / worker_id
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def kind_lab(worker_id, written):
    """The cluster, made where it is missing; skipped where there is no kind or no engine."""
    loaded = lab.loaded(worker_id)
    try:
        provider.verify(loaded)
    except provider.ProviderError as error:
        pytest.skip(str(error))
    with provider.start(loaded, written / "cluster") as cluster:
        yield lab.Lab(cluster, loaded.profile.model_dump(mode="json"), engine.find().program, written)


@pytest.fixture
def tell(record_property):
    """Tell something to the process that writes the last lines, from whichever worker."""
    return record_property


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the tables, which are for the reader of a run that is green, too; write the page of all faults."""
    told = [
        each
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for each in report.user_properties
    ]
    for name, text in told:
        if name == SHOWN:
            terminalreporter.write(f"\n{text}")
    rows = table.rows([each for name, each in told if name == table.TOLD])
    if rows:
        terminalreporter.write(f"\n{table.markdown(rows)}")
    if len(rows) == len(faults.FAULTS):
        PAGE.write_text(table.page(rows), encoding="utf-8")
