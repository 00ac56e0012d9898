"""`gpucluster serve` gives a cluster that kubectl can use, and leaves nothing."""

import base64
import contextlib
import os
import signal
import ssl
import stat
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

from pytest_gpucluster.cli import common
from pytest_gpucluster.cli import serve as command
from pytest_gpucluster.node import sandbox
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
        told = yaml.safe_load(wanted.read_text())["clusters"][0]["cluster"]
        server = told["server"]
        trust = ssl.create_default_context(
            cadata=base64.b64decode(told["certificate-authority-data"]).decode()
        )
        with urllib.request.urlopen(f"{server}/version", timeout=10, context=trust) as answer:  # noqa: S310 - loopback
            assert answer.status == 200
        if end is not None:
            process.send_signal(end)
        process.communicate(timeout=30)  # closes standard input
    assert process.returncode == 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{server}/version", timeout=10)  # noqa: S310 - loopback
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("given", ["/dev/null", "file", "closed"])
def test_a_cluster_without_an_input_that_can_end_stays_until_a_signal(tmp_path: Path, given: str) -> None:
    """In the background, under a service manager or in CI, standard input is at its end from the beginning."""
    folder = tmp_path / "of-serve"
    folder.mkdir()
    source = Path("/dev/null")
    if given == "file":
        source = tmp_path / "input"
        source.write_text("some text\n")
    with source.open() as stdin:
        words = () if given != "closed" else ("--kubeconfig", str(folder / "kubeconfig"))
        start = [sys.executable, "-c", START if given != "closed" else f"import os; os.close(0); {START}"]
        with subprocess.Popen(
            [*LISTENS_TO_CTRL_C, *start, "serve", "--set", "nodes=simulated", *words],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder)},
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("export KUBECONFIG=")
            said = [process.stdout.readline(), process.stdout.readline()]
            time.sleep(1.5)
            stayed = process.poll() is None
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
    assert said[-1] == "# ends with Ctrl-C or SIGTERM\n"
    assert stayed
    assert process.returncode == 0
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_a_kubeconfig_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """The cluster that was started for it is ended."""
    with serve(tmp_path, "--kubeconfig", str(tmp_path / "nowhere" / "kubeconfig")) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "cannot be written: No such file or directory" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--nodes", "0"], "must be a number from 1 to 64, got '0'"),
        (["--nodes", "65"], "must be a number from 1 to 64, got '65'"),
        (["--nodes", "many"], "must be a number from 1 to 64, got 'many'"),
        (["--token-file", "/nowhere/tokens"], "--token-file /nowhere/tokens: No such file or directory"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, words: list[str], line: str) -> None:
    """A number out of range and a file that is not there start nothing."""
    with serve(tmp_path, *words) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert line in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a,alice", "line 1 must be token,user,uid"),
        ("# users\n,alice,1", "line 2 must be"),
        ("a,alice,1\na,bob,2", "line 2 has a token that another line has"),
        ("a,alice,1\nb,alice,2", "line 2 has a user that another line has"),
    ],
)
def test_a_malformed_token_file_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    """The line is named."""
    file = tmp_path / "tokens"
    file.write_text(text)
    with pytest.raises(common.CliError, match=line):
        command.read_tokens(file)


def test_a_token_file_is_read_as_kube_apiserver_reads_it(tmp_path: Path) -> None:
    """Groups are one quoted cell; comments and empty lines are passed over."""
    file = tmp_path / "tokens"
    file.write_text('# token,user,uid,groups\n\na,alice,1,"dev,ops"\nb,bob,2\n')
    assert command.read_tokens(file) == (
        {"token": "a", "user": "alice", "groups": ["dev", "ops"]},
        {"token": "b", "user": "bob", "groups": []},
    )


@pytest.mark.slow
def test_nodes_and_users_as_asked_for(tmp_path: Path) -> None:
    """With --nodes there are so many; a user of the token file has a context and no rights."""
    problem = sandbox.probe()
    if problem is not None:
        pytest.skip(problem)
    users, wanted = tmp_path / "tokens", tmp_path / "kubeconfig"
    users.write_text("a,alice,1\n")
    kubectl = [
        str(Path(sys.executable).with_name("kubectl")),
        f"--kubeconfig={wanted}",
        "get",
        "nodes",
        "-o",
        "name",
    ]
    with serve(
        tmp_path,
        "--kubeconfig",
        str(wanted),
        "--nodes",
        "5",
        "--token-file",
        str(users),
        "--set",
        "nodes=process",
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("export KUBECONFIG=")
        seen = subprocess.run(kubectl, capture_output=True, text=True, timeout=60, check=True)
        refused = subprocess.run(
            [*kubectl, "--context=alice"], capture_output=True, text=True, timeout=60, check=False
        )
        process.communicate(timeout=30)
    assert seen.stdout.split() == [f"node/gpu-{index}" for index in range(5)]
    assert 'User "alice" cannot list resource "nodes" in API group "" at the cluster scope' in refused.stderr


OURS = "clusters: [{name: e, cluster: {server: 'https://127.0.0.1:1'}}]"


@pytest.fixture
def placed(tmp_path: Path):
    """Give a kubeconfig where it was wanted, and the means to end the command."""
    source, wanted = tmp_path / "source", tmp_path / "wanted"
    source.write_text(OURS)
    with contextlib.ExitStack() as stack:
        stack.enter_context(command._placed(source, wanted))
        assert stat.S_IMODE(wanted.stat().st_mode) == 0o600
        yield wanted, stack.close


def test_the_kubeconfig_goes_with_the_cluster(placed) -> None:
    """Also if kubectl has written it anew meanwhile, as `kubectl config set-context` does."""
    wanted, end = placed
    wanted.write_text(f"{OURS}\ncurrent-context: e\n")
    end()
    assert not wanted.exists()


@pytest.mark.parametrize(
    "text",
    ["clusters: [{name: prod, cluster: {server: 'https://prod'}}]", "notes of somebody", "{", ""],
    ids=["cluster", "words", "broken", "empty"],
)
def test_a_file_that_somebody_put_there_is_kept(placed, tmp_path: Path, text: str, capsys) -> None:
    """The name is the same, and the file is another."""
    wanted, end = placed
    other = tmp_path / "other"
    other.write_text(text)
    other.replace(wanted)
    end()
    assert wanted.read_text() == text
    assert "is kept" in capsys.readouterr().out


def test_a_kubeconfig_that_got_more_clusters_is_kept(placed) -> None:
    """Somebody has merged another cluster into it."""
    wanted, end = placed
    wanted.write_text(OURS.replace("]", ", {name: prod, cluster: {server: 'https://prod'}}]"))
    end()
    assert "prod" in wanted.read_text()


def test_a_kubeconfig_that_is_gone_is_no_trouble(placed, capsys) -> None:
    """Somebody was quicker."""
    wanted, end = placed
    wanted.unlink()
    end()
    assert capsys.readouterr().out == ""
