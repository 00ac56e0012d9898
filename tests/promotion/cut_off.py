"""A promotion that is killed: `gpucluster promote` with a decision that was made, and SIGKILL at a moment of choice.

    python -m tests.promotion.cut_off FOLDER QUEUE MOMENT

FOLDER has the profile and the kubeconfig; MOMENT is a function of `MOMENTS`, before or after which it ends itself.
"""

import dataclasses
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_gpucluster import cli
from pytest_gpucluster.cli import gate
from pytest_gpucluster.kube import connection, objects
from pytest_gpucluster.promotion import switching, targets, trial
from tests.acceptance import toy

MOMENTS = {
    "claimed": (switching.Switch, "_begin", True),
    "commanded": (switching.Switch, "_give", True),
    "lifted": (switching.Switch, "_stop", True),
    "open": (switching.Switch, "note", False),
    "green": (switching.Switch, "confirm", False),
    "trial": (trial, "nothing", True),
}
"""Name -> where, which function, and whether it is over."""

WAITING = """import os, pathlib, threading

def test_waits():
    pathlib.Path(os.environ["BEGUN"]).write_text(str(os.getpid()))
    threading.Event().wait()
"""


def kill(around: Callable[..., Any], *, over: bool) -> Callable[..., Any]:
    """Return a function that ends this process as nobody can prevent it."""

    def killed(*given: Any, **named: Any) -> Any:
        if over:
            around(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return killed


def main(folder: Path, word: str, moment: str) -> None:
    """Promote a queue of which a row is pending."""
    api = objects.Objects(connection.Connection.open(folder / "kubeconfig"))
    kind, _, name = word.rpartition("/")
    info = objects.table_row(targets.WORDS[kind])
    queue = targets.Target(info, api.get(info, name)).queue
    profile = toy.profile_of(conformance_queue="conformance")
    run = dataclasses.replace(
        toy.run("run-1", toy.attempt("GANG-001")),
        seen_queues={queue.place: queue},
        profile=profile.model_dump(mode="json"),
        digest="ab" * 32,
    )
    decided = toy.decide([run], toy.wants("GANG-001"), profile=profile)
    gate.considered = lambda *_: (decided, [run])
    (folder / "test_waits.py").write_text(WAITING)
    words = [str(folder / "test_waits.py"), "-q", "-n", "0", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    trial.words = lambda *_: words if moment == "trial" else ["--version"]
    where, function, over = MOMENTS[moment]
    if moment != "trial":
        setattr(where, function, kill(getattr(where, function), over=over))
    command = ["promote", "--queue", word, "--for", "prod", "--profiles", str(folder)]
    sys.exit(cli.main([*command, "--run", str(folder / "run"), "--policy", "weekly"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
