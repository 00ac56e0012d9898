"""Which tests are pure: they only compute. `make quick` runs those, and they are held to it."""

import sys
import threading
from pathlib import Path

HERE = Path(__file__).parent

PURE = (
    "acceptance", "docs", "evidence", "judge", "measure", "plain", "profile", "requirement", "suites", "workload",
)  # fmt: skip
"""Folders whose tests start no process, open no connection and wait for nothing."""

ELSEWHERE = {
    "cli": "serves clusters and API servers",
    "comparison": "reads every recorded run",
    "defects": "judges every mutant of every recorded run, which takes a minute",
    "dev": "starts programs",
    "diagnose": "runs jobs on the embedded cluster",
    "embedded": "runs control planes",
    "endtoend": "runs whole suites",
    "fixtures": "runs the tests of a site on the embedded cluster",
    "kind": "needs kind",
    "kube": "talks to an API server of its own",
    "node": "runs pods in sandboxes",
    "payloads": "needs torch, and runs programs",
    "plugin": "runs pytest",
    "promotion": "opens queues of the embedded cluster",
    "provider": "starts clusters",
    "report": "ends processes in the middle of a write",
    "scenario": "runs a control plane",
    "seams": "starts clusters",
}
"""Every other folder, with the reason."""

ACTS = ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.bind", "socket.connect",
        "subprocess.Popen", "time.sleep")  # fmt: skip
"""Audit events of the interpreter that no pure test raises."""


def is_pure(path: Path) -> bool:
    """Report whether a file of tests lies in a folder of pure ones; what lies in no folder is about tests itself."""
    parts = path.relative_to(HERE).parts
    return len(parts) == 1 or parts[0] in PURE


class Watch:
    """Notes what the main thread does while it watches; an audit hook cannot be removed, so there is one a process."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._seen: list[str] | None = None
        self._hooked = False

    def begin(self) -> None:
        """Note from now on."""
        if not self._hooked:
            sys.addaudithook(self._hear)
            self._hooked = True
        self._seen = []

    def end(self) -> list[str]:
        """Return what was noted, and note no more."""
        seen, self._seen = self._seen or [], None
        return seen

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._seen is not None and event in ACTS and threading.current_thread() is threading.main_thread():
            self._seen.append(f"{event}{arguments!r:.200}")
