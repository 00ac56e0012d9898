"""`gpucluster judge nccl`: facts, verdict, what to do, exit status; case files; input of every kind."""

import contextlib
import gzip
import io
import json
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster import cli
from tests import amount
from tests.cli.conftest import Call
from tests.measure.nccl import logs
from tests.measure.nccl.test_fuzz import LINES, PIECES

GOOD = "\n".join(logs.ring()) + "\n"


def write(folder: Path, content: str | bytes, name: str = "job.log") -> Path:
    """Return a file with some content."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_pass(call: Call, tmp_path: Path) -> None:
    """All ranks over all nodes with GPUDirect RDMA end 0."""
    status, out, err = call("judge", "nccl", write(tmp_path, GOOD), "--ranks", 2, "--nodes", 2)
    assert (status, err) == (0, "")
    assert out.startswith("PASS: 2 ranks over IB [rdma]")
    assert "IB [rdma]" in out


def test_two_pods_over_sockets(call: Call) -> None:
    """A fallback ends 1, names the ranks and says what to do."""
    status, out, _ = call("judge", "nccl", *logs.TWO_PODS, "--ranks", 4, "--nodes", 2)
    assert status == 1
    assert "rank 0 on pod-0, rank 2 on pod-1" in out
    assert out.startswith("FAIL: ")
    assert "RDMA with GPUDirect RDMA on all ranks" not in out.splitlines()[0]
    assert "fix: request the device in the pod" in out


def test_what_was_not_told_is_no_pass(call: Call, tmp_path: Path) -> None:
    """Without ranks and nodes the same log is inconclusive, and ends 3."""
    status, out, _ = call("judge", "nccl", write(tmp_path, GOOD))
    assert status == 3
    assert "give both: --ranks N --nodes M" in out


@pytest.mark.parametrize(
    ("log", "told", "hinted"),
    [("one", (), True), ("one", ("--nodes", 1), False), ("two", (), False)],
)
def test_a_log_of_one_node_says_which_option_is_missing(
    call: Call, log: str, told: tuple[object, ...], hinted: bool
) -> None:
    """Whoever reads the log of a single machine without --nodes learns why its adapters were asked for."""
    paths = [logs.ONE_NODE] if log == "one" else logs.TWO_PODS
    _, out, _ = call("judge", "nccl", *paths, *told)
    assert ("pass --nodes 1" in out) is hinted


def test_another_number_of_nodes_than_the_log_has_is_what_was_asked(call: Call) -> None:
    """Two pods may share the machine that was given: the first advice is to say so."""
    status, out, _ = call("judge", "nccl", *logs.TWO_PODS, "--ranks", 4, "--nodes", 1)
    assert status == 1
    assert "asked: undecided which job is meant: 1 node was given and 2 are in the log" in out
    assert "why\n  ? 1 node was given, but the log shows 2 nodes" in out
    assert (
        out.split("what to do")[1]
        .split("fix: ")[1]
        .startswith("give the machines of the pods with --pod-node")
    )


def test_json(call: Call) -> None:
    """Facts, connections and advice as data."""
    status, out, _ = call("judge", "nccl", *logs.TWO_PODS, "--ranks", 4, "--nodes", 2, "--json")
    data = json.loads(out)
    assert (status, data["verdict"], data["facts"]["class"]) == (1, "fail", "tcp")
    assert data["facts"]["socket_ranks"] == [0, 2]
    assert {
        "rank": 0,
        "host": "pod-0",
        "peer": 2,
        "way": "send",
        "gdr": False,
        "hcas": [],
        "via": "NET/Socket",
    } in data["connections"]


def test_adapters(call: Call, tmp_path: Path) -> None:
    """An adapter that was not named ends 1, also where the transport is right."""
    listed = logs.record("NET/IB : Using [0]mlx5_1:1/IB [1]mlx5_10:1/IB [RO]; OOB eth0:10.0.0.1<0>")
    other = logs.record(
        "NET/IB : Using [0]mlx5_1:1/IB [1]mlx5_10:1/IB [RO]; OOB eth0:10.0.0.2<0>", host="a-1"
    )
    text = "\n".join([listed, other, *logs.ring(rest="NET/IB/1/GDRDMA")]) + "\n"
    path = write(tmp_path, text)
    right = ("judge", "nccl", path, "--ranks", 2, "--nodes", 2, "--hcas")
    status, out, _ = call(*right, "mlx5_1")
    assert status == 1
    assert "used mlx5_10; listed mlx5_1, mlx5_10" in out
    assert call(*right, "mlx5_1,mlx5_10")[0] == 0


def test_pods_of_one_machine(call: Call, tmp_path: Path) -> None:
    """Nothing crossed a wire: no pass."""
    told = ("--pod-node", "a-0=node-a", "--pod-node", "a-1=node-a")
    status, out, _ = call("judge", "nccl", write(tmp_path, GOOD), "--ranks", 2, "--nodes", 2, *told)
    assert status == 3
    assert "the pods are on one machine" in out


def test_a_plugin_that_nobody_knows(call: Call, tmp_path: Path) -> None:
    """The user says what it is."""
    path = write(tmp_path, "\n".join(logs.ring(rest="NET/Acme Fast/0/GDRDMA")) + "\n")
    words = ("judge", "nccl", path, "--ranks", 2, "--nodes", 2)
    assert call(*words)[0] == 3
    assert call(*words, "--network", "Acme Fast=rdma")[0] == 0
    assert call(*words, "--network", "Acme Fast=tcp")[0] == 1


def test_packed_and_standard_input(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed log reads as the plain one does, and so does standard input."""
    words = ("--ranks", 2, "--nodes", 2, "--json")
    plain = call("judge", "nccl", write(tmp_path, GOOD), *words)
    assert call("judge", "nccl", write(tmp_path, gzip.compress(GOOD.encode()), "job.log.gz"), *words) == plain
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    assert call("judge", "nccl", "-", *words) == plain


def test_a_packed_log_that_was_cut_never_passes(call: Call, tmp_path: Path) -> None:
    """What came before the cut is read; that it is all cannot be known."""
    padding = "".join(f"step {n} loss {n * n % 97}\n" for n in range(20_000))
    packed = gzip.compress((GOOD + padding).encode())
    path = write(tmp_path, packed[: len(packed) - 2000], "job.log.gz")
    status, out, _ = call("judge", "nccl", path, "--ranks", 2, "--nodes", 2)
    assert status == 3
    assert "the log ends in the middle of a record" in out


def test_a_packed_log_that_is_broken(call: Call, tmp_path: Path) -> None:
    """One line, and status 2."""
    packed = bytearray(gzip.compress(GOOD.encode() * 50))
    packed[30:60] = b"\xff" * 30
    status, out, err = call("judge", "nccl", write(tmp_path, bytes(packed), "job.log.gz"))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "cannot be read" in err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no line of NCCL at level INFO is in the log"),
        (bytes(range(256)) * 4000, "no line of NCCL at level INFO is in the log"),
        ("NCCL version 2.26.5+cuda12.9\n", "no line of NCCL at level INFO is in the log"),
        ("日本語のログ\nKein NCCL\n", "no line of NCCL at level INFO is in the log"),
    ],
)
def test_input_that_shows_nothing(call: Call, tmp_path: Path, content: str | bytes, said: str) -> None:
    """Empty, binary, silent and foreign: inconclusive, with what to do."""
    status, out, _ = call("judge", "nccl", write(tmp_path, content), "--ranks", 2, "--nodes", 2)
    assert status == 3
    assert said in out
    assert "NCCL_DEBUG=INFO" in out


def test_a_world_of_mixed_versions(call: Call, tmp_path: Path) -> None:
    """Both versions are named, and it fails."""
    text = (
        GOOD
        + logs.record("NCCL version 2.21.5+cuda12.4")
        + "\n"
        + logs.record("NCCL version 2.27.3+cuda12.9", host="a-1")
        + "\n"
    )
    status, out, _ = call("judge", "nccl", write(tmp_path, text), "--ranks", 2, "--nodes", 2)
    assert status == 1
    assert "mixed_versions: 2.21.5, 2.27.3" in out


def test_given_cases(call: Call) -> None:
    """Every case of the files beside the package is a line, and there is no difference."""
    for file in sorted(logs.FOLDER.glob("*.yaml")):
        status, out, err = call("judge", "nccl", "--cases", file)
        assert (status, err) == (0, ""), out
        assert out.endswith("cases, 0 with differences\n")
        assert "DIFF" not in out


def test_a_case_with_a_difference(call: Call, tmp_path: Path) -> None:
    """It is named with what was expected and what was found, and the command ends 1."""
    wrong = "- {id: wrong, lines: [], expect: {class: rdma, rdma_gdr_check: inconclusive}}"
    text = f"{wrong}\n- {{id: right, lines: [], expect: {{class: unknown}}}}\n"
    path = write(tmp_path, text, "cases.yaml")
    status, out, _ = call("judge", "nccl", "--cases", path)
    assert status == 1
    assert out.splitlines() == [
        "DIFF wrong: class is 'unknown', expected 'rdma'",
        "ok   right",
        "2 cases, 1 with differences",
    ]
    status, out, _ = call("judge", "nccl", "--cases", path, "--json")
    assert status == 1
    assert json.loads(out)["cases"][0]["differences"] == [
        {"key": "class", "expected": "rdma", "found": "unknown"}
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: [", "is not valid YAML"),
        ("a: 1", "expected a list of cases, found a mapping"),
        ("", "expected a list of cases, found nothing"),
        ("- {id: x, lines: []}", "case 'x': 'expect' is missing"),
        ("- {id: x, lines: [], expect: {gdrr: all}}", "unknown key 'gdrr' in expect; did you mean 'gdr'?"),
        (b"\xff\xfe\x00", "is not text in UTF-8"),
    ],
)
def test_a_bad_case_file_is_one_line(call: Call, tmp_path: Path, content: str | bytes, said: str) -> None:
    """Status 2, and nothing on standard output."""
    status, out, err = call("judge", "nccl", "--cases", write(tmp_path, content, "cases.yaml"))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name the logs, - for standard input, or --cases FILE"),
        (["nowhere.log"], "no such log: 'nowhere.log'"),
        (["."], "'.' is a folder: name the logs in it"),
        (["--cases", "nowhere.yaml"], "no such file of cases: 'nowhere.yaml'"),
        (["--cases", "."], "'.' cannot be read: Is a directory"),
        (["--cases", "x.yaml", "--ranks", "2"], "--cases goes with --json alone, not with --ranks"),
        (["x.log", "--rank", "2"], "unknown option '--rank'; did you mean '--ranks'?"),
        (["x.log", "--ranks", "two"], "'two' is not a number of at least 1"),
        (["x.log", "--nodes", "0"], "'0' is not a number of at least 1"),
        (["x.log", "--hcas", "mlx5_0,"], "expected names separated by commas"),
        (["x.log", "--pod-node", "a"], "--pod-node 'a': expected POD=NODE"),
        (["x.log", "--network", "Acme=rmda"], "unknown class 'rmda'; did you mean 'rdma'?"),
    ],
)
def test_a_mistake_is_one_line(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    """Status 2, one line on standard error."""
    monkeypatch.chdir(tmp_path)
    status, out, err = call("judge", "nccl", *words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_adapters_decide_the_first_line(call: Call, tmp_path: Path) -> None:
    """What ends with the status of a violation says so first, in text and as data."""
    listed = [
        logs.record(f"NET/IB : Using [0]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.{n + 1}<0>", host=f"a-{n}")
        for n in (0, 1)
    ]
    path = write(tmp_path, "\n".join([*listed, *logs.ring()]) + "\n")
    words = ("judge", "nccl", path, "--ranks", 2, "--nodes", 2, "--hcas", "mlx5_7")
    status, out, _ = call(*words)
    assert status == 1
    assert out.startswith("FAIL: the adapters are not the expected ones (mlx5_7)")
    status, out, _ = call(*words, "--json")
    assert (status, json.loads(out)["verdict"]) == (1, "fail")


OPTIONS: tuple[tuple[object, ...], ...] = (
    (), ("--ranks", 2, "--nodes", 2), ("--ranks", 1, "--nodes", 1, "--json"), ("--hcas", "mlx5_0"), ("--ranks", 0),
    ("--pod-node", "a-0=n", "--pod-node", "a-0=m", "--ranks", 2, "--nodes", 2), ("--network", "IB=tcp"),
    ("--network", "IB=copper"), ("--hcas", ","),
)  # fmt: skip


@amount.examples(60)
@given(
    st.lists(
        st.one_of(st.sampled_from(LINES), st.lists(st.sampled_from(PIECES), max_size=9).map("".join)),
        max_size=25,
    ),
    st.lists(st.tuples(st.integers(0, 5000), st.binary(max_size=6)), max_size=5),
    st.sampled_from(OPTIONS),
    st.booleans(),
)
def test_no_input_ends_in_a_traceback(
    lines: list[str], damage: list[tuple[int, bytes]], options: tuple[object, ...], packed: bool
) -> None:
    """Whatever stands in a log: a verdict whose first line says it, or one line about a mistake."""
    raw = bytearray("\n".join(lines).encode("utf-8", "surrogatepass"))
    for at, put in damage:
        raw[at % (len(raw) + 1) : at % (len(raw) + 1) + 2] = put
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), gzip.compress(bytes(raw)) if packed else bytes(raw))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main(["judge", "nccl", str(path), *map(str, options)])
    said = out.getvalue()
    if "--json" in options:
        assert {"pass": 0, "fail": 1, "inconclusive": 3}[json.loads(said)["verdict"]] == status
    else:
        words = {0: "PASS: ", 1: "FAIL: ", 3: "INCONCLUSIVE: "}
        assert said.startswith(words[status]) if status in words else err.getvalue().count("\n") == 1
    assert "Traceback" not in err.getvalue()


@pytest.mark.parametrize(
    "header",
    ["#       size         count      type   redop    root     time   busbw #wrong time algbw busbw #wrong",
     "#       size         count      type   redop    root     busbw  time  busbw algbw time"],
)  # fmt: skip
def test_a_damaged_header_of_a_table(call: Call, tmp_path: Path, header: str) -> None:
    """Rows under a header that lacks a column are not read, and not taken for good."""
    row = "     1048576     262144     float     sum    -1    61.2   17.1   29.9   0   60.1   17.4   30.4   0"
    status, out, _ = call(
        "judge", "nccl", write(tmp_path, f"{GOOD}{header}\n{row}\n"), "--ranks", 2, "--nodes", 2
    )
    assert status in (1, 3)
    assert "cannot be read" in out or "wrong" in out
