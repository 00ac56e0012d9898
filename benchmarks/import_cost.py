"""What the plugin costs a pytest run that has nothing to do with it, against bare pytest.

Two measures, each the fastest of alternating runs in fresh processes (a busy machine only adds):

- import: `import pytest` alone, and with the modules that the plugin loads at start;
- run: one empty test without the plugin and with it.

Prints both, the difference in milliseconds and the ratio. The promise is under 50 ms.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROMISE_MS = 50.0

BARE = "import pytest"
WITH = "import pytest, pytest_gpucluster.plugin, pytest_gpucluster.hooks.workers"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 when the promise is broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15, help="runs of each kind (default 15)")
    options = parser.parse_args(arguments)
    python = [sys.executable, "-X", "utf8"]
    pytest_run = [*python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_empty.py"]
    broken = False
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_empty.py").write_text("def test_empty(): pass\n", encoding="utf-8")
        pairs = [
            ("import", [*python, "-c", BARE], [*python, "-c", WITH]),
            ("run", pytest_run, [*pytest_run, "-p", "pytest_gpucluster.plugin"]),
        ]
        for name, bare, loaded in pairs:
            without, with_it = _alternate(bare, loaded, Path(folder), options.rounds)
            more = with_it - without
            broken = broken or more > PROMISE_MS
            print(
                f"{name:<7} bare {without:6.1f} ms   with plugin {with_it:6.1f} ms   "
                f"more {more:5.1f} ms   ratio {with_it / without:.3f}"
            )
    print(f"promise: under {PROMISE_MS:.0f} ms more: {'broken' if broken else 'kept'}")
    return 1 if broken else 0


def _alternate(bare: list[str], loaded: list[str], folder: Path, rounds: int) -> tuple[float, float]:
    """Return the fastest run of two commands run in turn, in milliseconds; the first of each is thrown away."""
    # Plugins are not looked for on either side: the search costs the same whichever are installed.
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # As in any environment that was used once: modules are compiled, their byte code is cached.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds + 1):
        for command, kept in zip((bare, loaded), times, strict=True):
            start = time.perf_counter()
            subprocess.run(command, check=True, cwd=folder, env=env, stdout=subprocess.DEVNULL)
            kept.append((time.perf_counter() - start) * 1000)
    return min(times[0][1:]), min(times[1][1:])


if __name__ == "__main__":
    sys.exit(main())
