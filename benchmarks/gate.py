"""What the gate costs: deciding over three runs of all rows, what a run asks before it begins, and the gatekeeper.

    python benchmarks/gate.py [RUN RUN RUN]

- gate: `gpucluster gate` over three runs against `gpucluster verify` of the same three, one after the other; the best
  of alternating rounds. Without RUN the suite is run three times on the embedded cluster, which takes minutes.
- preflight: from the end of the collection to the question at a terminal, for all rows on a cluster that exists;
  requests are counted by a proxy before the API server. Reference: collecting the same rows.
- gatekeeper: from the expiry of the evidence to the condition that a watch tells, and the most memory that it had.

Prints each with its limit, and ends with 1 if one is missed.
"""

import argparse
import contextlib
import json
import os
import pathlib
import pty
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta

from pytest_gpucluster.hooks import asking
from pytest_gpucluster.kube import connection, objects
from pytest_gpucluster.plain import times
from pytest_gpucluster.promotion.following import Following
from pytest_gpucluster.promotion.gatekeeper import forms

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

GATE_MORE = 1.0
"""Seconds that the gate may take beyond `verify`."""
PREFLIGHT, REQUESTS = 2.0, 10
"""Seconds, and requests beside one per permission."""
REACTION, MEMORY = 2.0, 64.0
"""Seconds after the expiry, and MiB."""
START = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"
COMMAND = [sys.executable, "-c", START]
EXPIRES = 40.0
"""Seconds that a gatekeeper has, at the most, to start and read the gate before the evidence is too old."""


def seconds(*commands: Sequence[str], allowed: Sequence[int] = (0, 1)) -> tuple[float, float]:
    """Return the seconds of commands that run one after the other, and the CPU seconds that they took."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    for command in commands:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False, cwd=ROOT)
        assert done.returncode in allowed, command
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, spent


def three_runs(folder: pathlib.Path) -> list[pathlib.Path]:
    """Run the suite three times; return the folders."""
    for _ in range(3):
        words = ["suites", "--cluster=embedded", f"--gpucluster-report-dir={folder}", "-q", "-n", "2"]
        seconds([sys.executable, "-m", "pytest", *words])
    return sorted(each for each in folder.glob("2*") if each.is_dir())


def measure_gate(runs: Sequence[pathlib.Path], rounds: int) -> bool:
    """Compare the gate with `verify`; return whether it keeps its limit."""
    names = [str(run) for run in runs]
    gate = [*COMMAND, "gate", *names, "--policy", "acceptance", "--for", "embedded"]
    verify = [[*COMMAND, "verify", name] for name in names]
    pairs = [(seconds(*verify), seconds(gate)) for _ in range(rounds)]
    waited, spent = (
        [min(one[unit] for one in column) for column in zip(*pairs, strict=True)] for unit in (0, 1)
    )
    # Both compute on one CPU; on a machine that others use too, only what they compute tells them apart.
    print(
        f"gate over {len(runs)} runs: {spent[1]:.2f} s of CPU ({waited[1]:.2f} s waited); verify of the same "
        f"{spent[0]:.2f} s ({waited[0]:.2f} s); limit {spent[0] + GATE_MORE:.2f} s of CPU"
    )
    return spent[1] <= spent[0] + GATE_MORE


@contextlib.contextmanager
def served(folder: pathlib.Path) -> Iterator[None]:
    """Run a control plane with a node and a ClusterQueue; its kubeconfig and the profile `prod-a` lie in the folder."""
    from tests.embedded import support
    from tests.endtoend import test_gatekeeper

    with support.control_plane({"kueue": True}) as ready:
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "embedded", "users": [{"name": "u", "user": {}}],
            "clusters": [{"name": "k", "cluster": {"server": ready["url"]}}],
            "contexts": [{"name": "embedded", "context": {"cluster": "k", "user": "u"}}],
        }  # fmt: skip
        (folder / "kubeconfig").write_text(json.dumps(config))
        test_gatekeeper.setup(folder)
        yield


def measure_preflight(folder: pathlib.Path) -> bool:
    """Let a run of all rows come to its question, and say no; return whether it keeps its limits."""
    from tests.endtoend import proxy, test_gatekeeper

    words = [
        sys.executable,
        "-m",
        "pytest",
        str(ROOT / "suites"),
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
    ]
    # Of another folder of profiles: the one whose kubeconfig leads through the proxy.
    through = folder / "through"
    through.mkdir()
    config = json.loads((folder / "kubeconfig").read_text())
    with proxy.before(config["clusters"][0]["cluster"]["server"]) as before:
        config["clusters"][0]["cluster"]["server"] = before.url
        (through / "kubeconfig").write_text(json.dumps(config))
        (through / "prod-a.yaml").write_text(test_gatekeeper.PROFILE)
        run = [
            *words,
            "--cluster=prod-a",
            f"--gpucluster-profiles={through}",
            f"--gpucluster-report-dir={through}",
        ]
        _, collected = seconds([*run, "--collect-only", "-q"])
        before.requests.clear()
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        screen = until_asked(run, folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - spent.ru_utime - spent.ru_stime - collected
        asked = list(before.requests)
    permissions = sum("selfsubject" in request for request in asked)
    allowed = REQUESTS + permissions
    kept = took <= PREFLIGHT and len(asked) <= allowed
    print(
        f"preflight: {took:.2f} s of CPU beyond collecting ({collected:.2f} s), its end included, limit "
        f"{PREFLIGHT:g} s; {len(asked)} requests, "
        f"limit {allowed} ({permissions} about permissions): {', '.join(asked)}"
    )
    assert asking.QUESTION.strip() in screen
    return kept


def until_asked(command: Sequence[str], folder: pathlib.Path) -> str:
    """Run a command at a terminal until it asks; answer no and return what it wrote."""
    master, slave = pty.openpty()
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=folder)
    os.close(slave)
    screen = b""
    question = asking.QUESTION.strip().encode()
    while question not in screen:
        ready, _, _ = select.select([master], [], [], 120)
        assert ready, screen.decode()
        screen += os.read(master, 65536)
    os.write(master, b"n\n")
    with contextlib.suppress(OSError):  # the terminal is gone with its process
        while os.read(master, 65536):
            continue
    assert process.wait(60) == 2
    os.close(master)
    return screen.decode()


def measure_gatekeeper(folder: pathlib.Path, rounds: int) -> bool:
    """Let evidence expire under a gatekeeper; return whether it keeps its limits."""
    env = {**os.environ, "GPUCLUSTER_PROFILES": str(folder)}
    run = [
        sys.executable,
        "-m",
        "pytest",
        "--cluster=prod-a",
        "-k",
        "INV-002",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
    ]
    subprocess.run(run, cwd=folder, env=env, stdout=subprocess.DEVNULL, check=True)
    late: list[float] = []
    peak = 0.0
    for _ in range(rounds):
        found = expire(folder, env)
        late.append(found[0])
        peak = max(peak, found[1])
    kept = max(late) <= REACTION and peak <= MEMORY
    print(
        f"gatekeeper: closed {', '.join(f'{each:.2f}' for each in late)} s after the expiry, limit {REACTION:g} s; "
        f"at most {peak:.1f} MiB, limit {MEMORY:g} MiB"
    )
    return kept


def expire(folder: pathlib.Path, env: dict[str, str]) -> tuple[float, float]:
    """Return the seconds from the expiry to the condition, and the most memory in MiB."""
    from tests.endtoend import test_gatekeeper

    decide = [*COMMAND, "gate", "reports/latest", "--policy", "gate.yaml", "--for", "prod-a", "--json"]
    said = subprocess.run(decide, cwd=folder, env=env, stdout=subprocess.PIPE, check=False)
    at = min(times.parse_time(row["at"]) for row in json.loads(said.stdout)["rows"])
    until = times.now() + timedelta(seconds=EXPIRES)
    age = f"age: {(until - at).total_seconds() / 60:.4f}m"
    (folder / "soon.yaml").write_text(test_gatekeeper.POLICY.replace("age: 1m", age))
    words = ["--check", "fit", "--runs", "reports", "--policy", "soon.yaml", "--for", "prod-a"]
    api = objects.Objects(connection.Connection.open(folder / "kubeconfig"))
    with (
        subprocess.Popen(
            [*COMMAND, "gatekeeper", *words], cwd=folder, env=env, stdout=subprocess.DEVNULL
        ) as keeper,
        Following(api, forms.CHECK, "fit") as check,
    ):
        try:
            assert check.until(lambda obj: forms.is_true(obj, "Active"), EXPIRES + 10), check.obj
            # Its message has the moment in whole seconds.
            assert check.until(lambda obj: not forms.is_true(obj, "Active"), EXPIRES + 10), check.obj
            late = (times.now() - until).total_seconds()
            status = pathlib.Path(f"/proc/{keeper.pid}/status").read_text(encoding="utf-8")
        finally:
            keeper.terminate()
            keeper.wait(20)
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return late, int(peak.split()[1]) / 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs", metavar="RUN", nargs="*", type=pathlib.Path, help="folders of three runs of all rows"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each (default 3)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="gpucluster-bench-") as scratch:
        folder = pathlib.Path(scratch)
        runs = [run.resolve() for run in options.runs] or three_runs(folder)
        kept = [measure_gate(runs, options.rounds)]
        with served(folder):
            kept += [measure_preflight(folder), measure_gatekeeper(folder, options.rounds)]
    print(f"limits: {'kept' if all(kept) else 'missed'}")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
