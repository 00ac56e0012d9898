"""What the tests of the command line share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gpucluster import cli
from pytest_gpucluster.report import suites, write
from tests.report import sample

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Give a call of the command in this process: exit status, standard output, standard error."""

    def run(*words: object) -> tuple[int, str, str]:
        status = cli.main([str(word) for word in words])
        return (status, *capsys.readouterr())

    return run


@pytest.fixture
def sample_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the sample suite stand for the shipped one."""
    registry = sample.make_suite().registry
    monkeypatch.setattr(suites, "load_suites", lambda _extra=(): registry)


@pytest.fixture
def run(tmp_path: Path, sample_suites: None) -> Path:
    """Give the folder of the sample run with its reports."""
    folder = tmp_path / "run"
    sample.make_run(folder)
    write.write_all(folder)
    return folder
