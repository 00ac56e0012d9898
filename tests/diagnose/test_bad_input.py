"""Files that are no dump, or a spoilt one: one line says what is wrong, and no input breaks the command."""

import copy
import io
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster import cli, diagnose
from tests import recordings
from tests.diagnose.building import Cluster
from tests.diagnose.planting import Dump
from tests.diagnose.reckoned_rooms import gang, hold, room

DUMPS = sorted((recordings.FOLDER / "diagnose").glob("*.json*"))
JUNK: tuple[Any, ...] = (
    None, "", 0, -1, True, "x", [], {}, [1], {"a": 1}, [None], 1e308, "1e999999999", "9" * 5000, "²", "\x1b[31m",
    "2026-13-45T99:00:00Z", [[[]]], {"": ""},
)  # fmt: skip
EMPTY = '{"apiVersion": "v1", "kind": "List", "items": []}'
STATUS = '{"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "Unauthorized", "code": 401}'
POD = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "uid": "u"}, "spec": {"priority": %s}}'

WRONG: dict[str, tuple[bytes, str]] = {
    "YAML": (b"apiVersion: v1\nitems:\n- kind: Pod\n", "this is YAML, not JSON"),
    "cut": (b'{\n "apiVersion": "v1",\n "kind": "List",\n "items": [\n  {"kind": "Po', "cut off"),
    "UTF-16": (EMPTY.encode("utf-16"), "UTF-16"),
    "a table": (b"NAME   READY\nx      1/1\n", "not JSON"),
    "an error of kubectl": (b"Error from server (Forbidden): pods is forbidden\n", "not JSON"),
    "an error of the API server": (STATUS.encode(), "Unauthorized"),
    "nothing": (b"", "empty"),
    "null": (b"null", "expected a JSON object"),
    "an object of another tool": (b'{"cluster": "x", "pods": []}', "neither a Kubernetes object"),
    "no object": (EMPTY.encode(), "no object"),
    "a number of thousands of digits": ((POD % ("9" * 6000)).encode(), "too many digits"),
    "brackets without end": (b"[" * 100_000, "nested too deep"),
    "bytes": (b"\x00\x01\x02", "not JSON"),
}


def _look(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = cli.main(["diagnose", "--from", str(path)])
    except SystemExit as end:
        code = int(end.code or 0)
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.mark.parametrize("kind", sorted(WRONG))
def test_a_file_that_is_no_dump_gets_one_line(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """It says which file, and what is wrong with it; the exit status is that of a mistake, never that of a cause."""
    content, words = WRONG[kind]
    path = tmp_path / "dump.json"
    path.write_bytes(content)
    code, out, err = _look(path, capsys)
    assert code == 2
    assert not out
    assert len(err.strip().splitlines()) == 1, err
    assert words in err
    assert "dump.json" in err


def test_a_folder_is_no_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """It is said in one line, as of a file."""
    code, _, err = _look(tmp_path, capsys)
    assert code == 2
    assert len(err.strip().splitlines()) == 1


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Editors and shells of Windows write one."""
    path = tmp_path / "dump.json"
    path.write_bytes(b"\xef\xbb\xbf" + (recordings.FOLDER / "diagnose" / "cordoned.json").read_bytes())
    assert "rack-0" in _look(path, capsys)[1]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_names_that_no_terminal_takes_are_escaped(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A lone surrogate in a name, and a terminal that is not UTF-8: what cannot be shown is shown escaped."""
    path = tmp_path / "dump.json"
    text = (recordings.FOLDER / "diagnose" / "cordoned.json").read_text()
    path.write_text(text.replace('"rack-0"', '"r\\ud800ck-ä"'))
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding))
    assert cli.main(["diagnose", "--from", str(path)]) == 1
    assert "r\\ud800ck-" in written.getvalue().decode(encoding)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _paths(inner, (*path, key))


def _spoil(value: Any, chance: random.Random, times: int) -> Any:
    """Take fields away, or put junk in their place."""
    for _ in range(times):
        every = list(_paths(value))
        if not every:
            break
        path = chance.choice(every)
        place = value
        for key in path[:-1]:
            place = place[key]
        if chance.random() < 0.35:
            del place[path[-1]]
        else:
            place[path[-1]] = copy.deepcopy(chance.choice(JUNK))
    return value


def _spoilt(path: Path, chance: random.Random) -> str:
    """Return a dump with some fields of another type or gone, in one of four cut off as well."""
    text = path.read_text(encoding="utf-8")
    times = chance.choice((1, 1, 2, 5, 20))
    try:
        text = json.dumps(_spoil(json.loads(text), chance, times))
    except json.JSONDecodeError:
        lines = text.splitlines()
        number = chance.randrange(len(lines))
        lines[number] = json.dumps(_spoil(json.loads(lines[number]), chance, times))
        text = "\n".join(lines)
    return text[: chance.randrange(len(text))] if chance.random() < 0.25 else text


@pytest.mark.parametrize("seed", range(10))
def test_spoilt_dumps_break_nothing(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Each dump with fields of other types, gone or cut: a diagnosis comes out, or one line that says what is wrong."""
    chance = random.Random(seed)  # noqa: S311 - a repeatable choice
    for dump in chance.sample(DUMPS, 8):
        path = tmp_path / dump.name
        path.write_text(_spoilt(dump, chance), encoding="utf-8")
        code, out, err = _look(path, capsys)
        assert code in (0, 1, 2, 3)
        assert "the check '" not in out, out
        if code == 2:
            assert len(err.strip().splitlines()) == 1, err
            assert not out


@pytest.mark.parametrize("text", ["9", "a.b-c.", "word ", "[rank1]: ", "\x1b[31m", "/a", '{"a":'])
def test_a_long_line_costs_no_more_than_its_length(text: str):
    """A log line, an event and a message of 60,000 characters: looked at in a second, whatever they repeat."""
    long = text * (60_000 // len(text))
    dump = Dump()
    dump.say(dump.workers[0], long).event(dump.workers[0], "BackOff", long, by="kubelet").end(
        dump.workers[1], 1
    )
    held = Dump().queue().nodes(8, 8).held()
    held.unbind(*held.pods, message=long).drop("Event").later()
    begun = time.process_time()
    assert dump.diagnose().suspects
    assert held.diagnose().suspects
    assert time.process_time() - begun < 5


def test_events_without_end_and_many_nodes_are_read():
    """A namespace that has hung for a night: the events only repeat each other, and the nodes are reckoned once."""
    cluster = gang(hold(room(300), 8, 300), 300, 8, counted=300)
    pods = [pod for pod in cluster.of("Pod") if pod["metadata"]["namespace"] == "ml"]
    for number in range(20_000):
        cluster.event(
            pods[number % 300], "FailedScheduling", "0/300 nodes are unavailable", last=20 + number % 300
        )
    begun = time.process_time()
    found = _revived(cluster)
    assert time.process_time() - begun < 15
    assert found.suspects[0].code == "room-taken"


def _revived(cluster: Cluster) -> diagnose.Diagnosis:
    evidence = diagnose.revive(diagnose.unfold(cluster.objects))
    return diagnose.diagnose(diagnose.subjects(evidence, "train", "ml")[0])
