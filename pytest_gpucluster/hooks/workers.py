"""Hooks that exist only with xdist: what goes to workers, what comes back, the end of the run.

Only plain data crosses. The controller collects nothing, so it knows of a run by the folder that it named and a
worker made.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.hooks import finish, settings, signals, state
from pytest_gpucluster.plain import times

INPUT = "gpucluster"
OUTPUT = "gpucluster"


def configure(config: pytest.Config) -> None:
    """Register the hooks of this process's role: worker or controller."""
    if settings.wants_plan(config):
        # The plan needs one collection, in this process.
        config.option.dist = "no"
        config.option.tx = []
        return
    if state.is_worker(config):
        config.pluginmanager.register(Worker(), "gpucluster-worker")
        args = getattr(config, "workerinput", {}).get(INPUT, {}).get("args")
        if args is not None:
            from pytest_gpucluster.hooks import shipped

            shipped.configure_worker(config, args)
    elif config.getoption("dist", "no") != "no" and not config.getoption("collectonly"):
        config.pluginmanager.register(Controller(config), "gpucluster-controller")


class Worker:
    """Tells the controller what was selected, or why nothing is run."""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Put plain data into the worker's output."""
        config: Any = session.config
        selection = state.selection_of(config)
        config.workeroutput[OUTPUT] = {
            "selected": selection.selected,
            "left_out": selection.left_out,
            "site_tests": selection.site_tests,
            "site_left_out": selection.site_left_out,
            "problem": config.stash.get(state.PROBLEM, None),
        }


class Controller:
    """Names the run's folder, owns the cluster's life, ends the record."""

    def __init__(self, config: pytest.Config) -> None:
        """Start without a run."""
        self.config = config
        self.folder: Path | None = None
        self.problem: str | None = None
        self.crashed = False
        self.began = times.now().timestamp()

    def pytest_sessionstart(self) -> None:
        """Let SIGTERM interrupt a run of ours; any other run keeps its default."""
        signals.interrupt_on_sigterm(self.config, self._pass_on)

    def _pass_on(self) -> bool:
        if self.folder is None or not self.folder.exists():
            return False
        # SIGTERM reaches the controller only; workers clean up their own namespaces.
        signals.pass_on(self.folder)
        return True

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker the run's folder and the owner of the cluster."""
        if self.folder is None:
            self.folder = self._name_folder()
            from pytest_gpucluster.hooks import progress_line

            progress_line.watch(self.config, None, lambda: self.folder)
        node.workerinput[INPUT] = {"folder": str(self.folder), "owner_pid": os.getpid(), "began": self.began}
        if self.config.pluginmanager.has_plugin(state.SUITES):
            node.workerinput[INPUT]["args"] = [*self.config.args]

    def _name_folder(self) -> Path:
        from pytest_gpucluster.hooks import run_folder

        try:
            return run_folder.new_folder(settings.resolve(self.config))
        except pytest.UsageError:
            # A worker that collects a requirement tells it; a foreign run must not care.
            return self.config.rootpath / "reports" / "unnamed"

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """Say what the run will do on a cluster that exists, and ask, before any worker gets a test."""
        if self.folder is None or not self.folder.parent.is_dir():
            return
        from pytest_gpucluster.hooks import asking

        asking.ask_for_workers(self.config, self.folder)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take what a worker found."""
        self.crashed = self.crashed or error is not None
        found = getattr(node, "workeroutput", {}).get(OUTPUT, {})
        selection = state.selection_of(self.config)
        selection.left_out.update(found.get("left_out") or {})
        selection.site_tests.update(found.get("site_tests") or {})
        selection.site_left_out.update(found.get("site_left_out") or {})
        selection.selected = list(dict.fromkeys([*selection.selected, *(found.get("selected") or ())]))
        self.problem = self.problem or found.get("problem")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """End the run after all workers ended, or tell the usage error that one of them found."""
        if self.problem is not None:
            self.config.stash[state.PROBLEM] = self.problem
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
            return
        if self.folder is not None and self.folder.exists():
            left = self._after_a_crash(self.folder)
            finish.end(session, self.folder, exit_status=int(exitstatus), left_overs=left)

    def _after_a_crash(self, folder: Path) -> list[str]:
        """Clean up for a worker that could not; what it kept on purpose stays."""
        if not self.crashed or settings.resolve(self.config).keep:
            return []
        from pytest_gpucluster.hooks import crashed, disk_full
        from pytest_gpucluster.report import record

        left = crashed.sweep(folder)
        with disk_full.telling(folder / record.JOURNAL, left):
            record.Journal(folder / record.JOURNAL).cleanup(left)
        return left
