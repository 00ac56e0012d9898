"""An inner project with a fake cluster, run in this process or in one of its own."""

import dataclasses
import importlib.metadata
import os
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.hooks import (
    backend,
    offered,
    run,  # noqa: F401 - imported here, so that inner runs share them
)
from pytest_gpucluster.requirement import REGISTRY
from pytest_gpucluster.scenario import permissions  # noqa: F401 - the same: half of it imported anew cannot be sorted
from tests.inner import ALONE

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
INSTALLED = any(
    point.value == "pytest_gpucluster.plugin" for point in importlib.metadata.entry_points(group="pytest11")
)
PLUGIN = () if INSTALLED else ("-p", "pytest_gpucluster.plugin")
"""An installed plugin is loaded by its entry point and must not be named again."""

HEAD = """
from pytest_gpucluster.requirement import requirement
from doubles import *
"""


@dataclasses.dataclass
class Project:
    """A project with requirements on a fake cluster."""

    pytester: pytest.Pytester

    def write(self, **modules: str) -> None:
        """Write test modules; each gets the imports that requirements need."""
        for name, text in modules.items():
            path = self.pytester.path / f"{name}.py"
            path.write_text(HEAD + textwrap.dedent(text), encoding="utf-8")

    def rows(self, *rows: str, module: str = "test_rows") -> None:
        """Write one requirement per row: `ID scenario judge`, optionally followed by further arguments."""
        parts = []
        for row in rows:
            row_id, scenario, judge, *more = row.split(" ", 3)
            arguments = f", {more[0]}" if more else ""
            parts.append(
                f'@requirement("{row_id}", documents="R", scenario={scenario}, judge={judge}'
                f"{arguments if 'level=' in arguments else ', level=' + repr('must') + arguments})\n"
                f"def test_{row_id.replace('-', '_').lower()}(settle):\n"
                f'    """Title of {row_id}.\n\n    It MUST hold.\n    """\n'
                f"    settle()\n"
            )
        self.write(**{module: "\n\n".join(parts)})

    def run(self, *args: str) -> pytest.RunResult:
        """Run the project in this process."""
        return self.pytester.runpytest_inprocess(*PLUGIN, *ALONE, *args)

    def run_apart(self, *args: str) -> pytest.RunResult:
        """Run the project in a process of its own."""
        return self.pytester.runpytest_subprocess(*PLUGIN, *ALONE, *args)

    @property
    def log(self) -> list[str]:
        """Return what the fake cluster was asked."""
        path = self.pytester.path / "fake-cluster.log"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    @property
    def latest(self) -> Path:
        """Return the folder of the last run."""
        return self.pytester.path / "reports" / "latest"

    def report(self) -> Mapping[str, Any]:
        """Return the record of the last run."""
        from pytest_gpucluster.report import record

        return record.load(self.latest)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with strict markers and warnings as errors, on a fake cluster."""
    for name in [*os.environ]:
        if name.startswith(("PYTEST_ADDOPTS", "GPUCLUSTER_", "PYTEST_XDIST")):
            monkeypatch.delenv(name)
    # Inner runs share this process: what they replace and declare must end with the test.
    monkeypatch.setattr(backend, "open_backend", backend.open_backend)
    monkeypatch.setattr(REGISTRY, "_by_id", {})
    monkeypatch.setattr(offered, "check", offered.check)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    (pytester.path / "pytest.toml").write_text(
        '[pytest]\nstrict = true\nfilterwarnings = ["error"]\ngpucluster_suites = false\n', encoding="utf-8"
    )
    (pytester.path / "doubles.py").write_text(
        (HERE / "doubles.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (pytester.path / "conftest.py").write_text("import doubles\n\ndoubles.install()\n", encoding="utf-8")
    return Project(pytester)
