"""`gpucluster serve` gives a cluster that kubectl can use, and leaves nothing."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.interrupting import LISTENS_TO_CTRL_C

START = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"


def serve(tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    """Start the command with nodes that run no pods, so that no namespaces are needed."""
    return subprocess.Popen(
        [*LISTENS_TO_CTRL_C, sys.executable, "-c", START, "serve", "--set", "nodes=simulated", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "end", [None, signal.SIGTERM, signal.SIGINT], ids=["end-of-input", "SIGTERM", "SIGINT"]
)
def test_the_cluster_answers_and_ends(tmp_path: Path, end: signal.Signals | None) -> None:
    """The printed kubeconfig leads to an API server; each way to end it ends it with status 0 and no file."""
    wanted = tmp_path / "kubeconfig"
    with serve(tmp_path, "--kubeconfig", str(wanted)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"export KUBECONFIG={wanted}\n", (
            process.stderr and process.stderr.read()
        )
        server = yaml.safe_load(wanted.read_text())["clusters"][0]["cluster"]["server"]
        with urllib.request.urlopen(f"{server}/version", timeout=10) as answer:  # noqa: S310 - loopback
            assert answer.status == 200
        if end is not None:
            process.send_signal(end)
        process.communicate(timeout=30)  # closes standard input
    assert process.returncode == 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{server}/version", timeout=10)  # noqa: S310 - loopback
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_kubeconfig_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """The cluster that was started for it is ended."""
    with serve(tmp_path, "--kubeconfig", str(tmp_path / "nowhere" / "kubeconfig")) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "cannot be written: No such file or directory" in err
    assert list(tmp_path.iterdir()) == []
