"""The faults that the suite has to find on a cluster with GPUs, and what its rows must say beside each."""

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import declared, machine, members, places, plant
from .failure import Failed
from .settings import Settings

SUITE = ("--pyargs", "pytest_gpucluster.suites")
GANG, COLLECTIVES, STALLED = "healthy", "collectives", "stalled-collective"
"""Scenarios of the suite, which are the names of the Jobs that they make."""
PODS = 90.0
"""Seconds within which the pods of a gang run, from the start of pytest on, and within which they connect."""
STEP = 5.0
STALL_BOUND = 60.0
"""Seconds of a hang, if the profile does not say."""
SLACK = 10.0
"""Seconds beyond the bound of a hang within which a member has to end."""

Obj = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a row must say.

    Attributes:
        row: its id.
        verdicts: those that are right.
        names: what its finding must name, one of them at least; nothing if it passes.
    """

    row: str
    verdicts: tuple[str, ...]
    names: tuple[str, ...] = ()

    def is_met(self, verdict: str, finding: str) -> bool:
        """Report whether a verdict is right and its finding names what it must."""
        named = not self.names or any(name in finding for name in self.names)
        return verdict in self.verdicts and (verdict == "pass" or named)

    def __str__(self) -> str:
        """Return it as a cell of the table."""
        named = f", names {' or '.join(self.names)}" if self.names else ""
        return f"{' or '.join(self.verdicts)}{named}"


class Rows:
    """Rows of the suite that run in a process of their own."""

    def __init__(self, command: list[str], out: Path, end: float) -> None:
        """Take what is run, where it writes, and until when it may."""
        self.out, self.end, self._command = out, end, command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start them."""
        self.out.mkdir(parents=True, exist_ok=True)
        with (self.out / "output.txt").open("wb") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def beside(self, look: Callable[[float], list[Obj]]) -> list[Obj]:
        """Return what is looked for while they run; `look` is given seconds and raises `Failed` if it is not there.

        Raises:
            Failed: it was not there before they ended, or in time.
        """
        end = time.monotonic() + PODS
        while True:
            try:
                return look(STEP)
            except Failed as error:
                if self._process is None or self._process.poll() is not None:
                    raise Failed(f"the rows had ended before: {error}") from None
                if time.monotonic() > end:
                    raise

    def finish(self) -> None:
        """Wait for their end; they are started if they were not.

        Raises:
            Failed: they did not end in time.
        """
        if self._process is None:
            self.start()
        try:
            if self._process is not None:
                self._process.wait(max(1.0, self.end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failed("the rows did not end within the time that was left") from None

    def stop(self) -> None:
        """End them if they run, as a person would, so that they take back what they made."""
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(plant.END * 2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def verdicts(self) -> dict[str, tuple[str, str]]:
        """Return row -> verdict and its finding as text."""
        path = self.out / "latest" / "report.json"
        if not path.is_file():
            return {}
        found = json.loads(path.read_text(encoding="utf-8"))["requirements"]
        return {each["id"]: (str(each["verdict"]), json.dumps(each.get("finding"))) for each in found}


@dataclasses.dataclass(frozen=True)
class Trial:
    """One fault, and the rows beside it.

    Attributes:
        name: for `--only`, and of the folder of its report.
        fault: in words.
        seconds: that it may take.
        rows: what they must say.
        planting: plants it before or while the rows run, waits for their end, and returns what shows that it happened.
        undoing: takes it back.
        cluster: the profile with which the rows run.
    """

    name: str
    fault: str
    seconds: float
    rows: tuple[Expected, ...]
    planting: Callable[[Rows], str]
    undoing: Callable[[], object] = lambda: None
    cluster: str = declared.NAME

    def command(self, suite: tuple[str, ...], out: Path) -> list[str]:
        """Return the command that runs its rows."""
        rows = " or ".join(each.row for each in self.rows)
        return [
            sys.executable, "-m", "pytest", *suite, "-q", "-p", "no:cacheprovider", f"--cluster={self.cluster}",
            f"--gpucluster-profiles={places.STATE / 'clusters'}", f"--gpucluster-report-dir={out}", "-k", rows,
        ]  # fmt: skip


def every(settings: Settings) -> Iterator[Trial]:
    """Yield the faults: of a device plugin, of a member, of device files, of a GPU."""
    yield from _of_plugin(settings)
    yield _of_member(settings)
    yield _of_devices(settings)
    # The longest of them has what is left of the time.
    yield _of_gpu(settings)


def _of_plugin(settings: Settings) -> Iterator[Trial]:
    node = settings.nodes[0]
    gpu = node.gpus[0] if node.gpus else 0

    def restarted(rows: Rows) -> str:
        rows.start()
        (pod, *_) = rows.beside(lambda limit: members.running(members.of_gang(GANG), 1, limit))
        at = plant.node_of(settings, pod["spec"]["nodeName"])
        shown = plant.plugin_restarted(settings, at, pod)
        rows.finish()
        return shown

    def away(rows: Rows) -> str:
        shown = plant.plugin_away(settings, node)
        rows.finish()
        return shown

    def left_out(rows: Rows) -> str:
        shown = plant.gpu_left_out(settings, node, gpu)
        rows.finish()
        return shown

    yield Trial(
        "plugin-restarted", "a device plugin is killed and started again during a gang", 60,
        (Expected("GANG-001", ("pass",)),), restarted,
    )  # fmt: skip
    short = (Expected("INV-002", ("fail",), (node.name,)),)
    yield Trial(
        "plugin-away", "a device plugin is killed and stays away", 40,
        short, away, lambda: plant.plugin_back(settings, node),
    )  # fmt: skip
    # Of two nodes that differ neither is the exception; one has nothing beside it.
    verdict = {1: "environment", 2: "inconclusive"}.get(len(settings.nodes), "fail")
    unlike = Expected("INV-008", (verdict,), (node.name,) if len(settings.nodes) > 1 else ())
    yield Trial(
        "gpu-left-out", "one GPU is left out by the device plugin of a node", 40,
        (*short, unlike), left_out, lambda: plant.gpu_back(settings, node),
    )  # fmt: skip


def _of_member(settings: Settings) -> Trial:
    bound = float(declared.read().get("fabric", {}).get("stall_bound", STALL_BOUND))
    # On CPUs no row judges a collective that stands still.
    row, scenario = ("FAB-011", STALLED) if settings.devices == "nvidia" else ("FAB-006", COLLECTIVES)

    def killed(rows: Rows) -> str:
        rows.start()
        pods = rows.beside(
            lambda limit: members.running(members.of_gang(scenario), len(settings.nodes), limit)
        )
        shown = members.exchanging(settings, pods, PODS)
        killed = plant.member_killed(settings, pods[-1])
        took = members.ended(pods[:-1], bound + SLACK)
        rows.finish()
        return f"{shown}; {killed}; the others had ended {took:.1f} s later (bound {bound:g} s)"

    # Whoever has lost a member must not be said to be well.
    return Trial(
        "member-killed", "a member is killed in the middle of collectives", 60 + 2 * bound,
        (Expected(row, ("fail", "inconclusive"), ("(exit code 137)",)),), killed,
    )  # fmt: skip


def _of_devices(settings: Settings) -> Trial:
    def opened(rows: Rows) -> str:
        shown = plant.all_devices(settings)
        rows.finish()
        return shown

    return Trial(
        "all-devices", "every pod gets all device files by a hostPath volume", 40,
        (Expected("HLT-004", ("fail",), ("can reach",)),), opened, cluster=plant.ALL_DEVICES,
    )  # fmt: skip


def _of_gpu(settings: Settings) -> Trial:
    gpu = settings.nodes[0].gpus[0] if settings.nodes[0].gpus else 0
    uuid = machine.uuids(settings.libraries).get(gpu, "") if settings.devices == "nvidia" else "its GPU"

    def burned(rows: Rows) -> str:
        with plant.gpu_burned(settings, gpu) as report:
            rows.finish()
            return report()

    return Trial(
        "gpu-burned", "a second process burns one GPU", 180,
        (Expected("MFU-001", ("fail",), (uuid,)),), burned,
    )  # fmt: skip
