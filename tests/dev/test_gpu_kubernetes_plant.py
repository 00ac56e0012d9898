"""Faults that dev/gpu-kubernetes plants: whose process is killed, what shows it, and what the table makes of it."""

import importlib
import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest
import yaml

HERE = pathlib.Path(__file__).resolve().parents[2] / "dev" / "gpu-kubernetes"


@pytest.fixture
def module(monkeypatch, tmp_path):
    """Give modules of the tool, whose cluster lies in a folder of the test's own."""
    monkeypatch.syspath_prepend(HERE)
    places = importlib.import_module("gpu_server.places")
    monkeypatch.setattr(places, "STATE", tmp_path / "state")
    (tmp_path / "state" / "clusters").mkdir(parents=True)
    return lambda name: importlib.import_module(f"gpu_server.{name}")


@pytest.fixture
def settings(module):
    """Return settings of two nodes of one GPU that is not there."""
    places = module("places")
    return module("settings").Settings((places.Node(1, (0,)), places.Node(2, (1,))), "fake", 2)


def listed(proc, pid, *numbers, namespace="pid:[1]", state="S", born=7):
    """Write what the kernel tells of a process: its numbers from the outermost namespace to the innermost."""
    folder = proc / str(pid)
    (folder / "ns").mkdir(parents=True)
    (folder / "ns" / "pid").symlink_to(namespace)
    (folder / "stat").write_text(f"{pid} (a) b) {state} {' '.join(['1'] * 18)} {born} 0\n")
    told = "\t".join(map(str, (pid, *numbers)))
    (folder / "status").write_text(f"Name:\ta\nPid:\t{pid}\nNSpid:\t{told}\n")


def test_a_number_inside_is_looked_up_in_its_own_namespace(module, tmp_path):
    """The same number is another process outside, and a third one in each pod."""
    processes = module("processes")
    proc = tmp_path / "proc"
    listed(proc, 40)
    listed(proc, 900, 1, namespace="pid:[2]")
    listed(proc, 901, 40, namespace="pid:[2]", born=11)
    listed(proc, 902, 55, 40, namespace="pid:[3]")
    listed(proc, 903, 41, namespace="pid:[2]", state="Z")
    found = processes.of_cluster(40, 900, proc)
    assert (found.pid, found.born, found.inner) == (901, "11", 40)
    assert processes.of_cluster(41, 900, proc) is None
    assert processes.of_cluster(40, 999, proc) is None


def test_all_processes_of_a_machine_can_be_read(module):
    """Also where some may not be looked at, and while others come and go."""
    processes = module("processes")
    own = processes.read(os.getpid())
    assert own in list(processes.everyone())
    assert processes.of_cluster(own.inner, own.pid) == own


def test_a_process_is_killed_and_no_other_that_has_its_number(module):
    """The end is awaited; whoever was born at another moment is left alone."""
    processes = module("processes")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        real = processes.read(child.pid)
        another = processes.Process(real.pid, f"{real.born}0", real.inner, real.namespace)
        assert not another.lives()
        assert another.kill(5.0)
        assert real.lives()
        assert not real.ends(0.0)
        assert real.kill(5.0)
        assert not real.lives()
    assert child.returncode == -9
    assert real.kill(5.0)


@pytest.mark.parametrize("which", [1, 2])
def test_processes_of_a_container_are_found_by_its_pod(module, monkeypatch, tmp_path, which):
    """By the control groups of pod and container, of either version; the first process of the container comes first."""
    processes, kernel = module("processes"), module("kernel")
    root = tmp_path / "cgroup"
    monkeypatch.setattr(kernel, "CONTROL_GROUPS", root)
    above = root if which == 2 else root / "pids"
    group = above / "gpu-kubernetes/gpu-1/kubepods/burstable/podabc"
    (group / "c1" / "init").mkdir(parents=True)
    (group / "c2").mkdir()
    (above / "cgroup.procs").touch()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        (group / "c1" / "cgroup.procs").write_text(f"{os.getpid()}\n")
        (group / "c1" / "init" / "cgroup.procs").write_text(f"{child.pid}\n")
        (group / "c2" / "cgroup.procs").write_text("1\n")
        found = processes.of_container("abc", "containerd://c1", which)
        assert {each.pid for each in found} == {os.getpid(), child.pid}
        assert processes.of_container("ab", "containerd://c1", which) == ()
        child.kill()


def test_connections_of_a_process_are_its_own(module):
    """Those of others in the same network namespace do not count, nor what only listens."""
    members, processes = module("members"), module("processes")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0]:
            own = set(members.connections(processes.read(os.getpid())))
            assert {
                ("127.0.0.1", client.getsockname()[1], port),
                ("127.0.0.1", port, client.getsockname()[1]),
            } <= own
            with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
                assert list(members.connections(processes.read(other.pid))) == []
                other.kill()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0342C612:0CBB", "18.198.66.3"),
        ("0000000000000000FFFF00000342C612:0CBB", "18.198.66.3"),
        ("B80D01200000000067452301EFCDAB89:0001", "2001:db8::123:4567:89ab:cdef"),
    ],
)
def test_addresses_as_the_kernel_writes_them(module, text, address):
    """Of both versions, and of one in the other."""
    assert module("members")._address(text) == address


def trial(module, *rows, planting=lambda _: "it was seen", undoing=lambda: None, seconds=60.0):
    """Return a trial with rows that must fail and name node gpu-1."""
    trials = module("trials")
    expected = tuple(trials.Expected(row, ("fail",), ("gpu-1",)) for row in rows)
    return trials.Trial("one", "a fault", seconds, expected, planting, undoing)


@pytest.mark.parametrize(
    ("shown", "wrong", "said", "result"),
    [
        ("seen", "", ("fail", "gpu-1 offers 0"), "as expected"),
        ("seen", "", ("fail", "gpu-2 offers 0"), "NOT as expected"),
        ("seen", "", ("pass", "gpu-1"), "NOT as expected"),
        ("seen", "", None, "NOT as expected"),
        ("seen", "not taken back", ("fail", "gpu-1"), "NOT as expected"),
        ("", "no process was found", ("fail", "gpu-1"), "not planted"),
        ("", "", ("fail", "gpu-1"), "not planted"),
    ],
)
def test_only_a_fault_that_was_seen_can_be_found(module, shown, wrong, said, result):
    """The right verdict beside nothing is no green."""
    told = {} if said is None else {"INV-002": said}
    (line,) = module("table").judged(trial(module, "INV-002"), shown, wrong, told)
    assert line.result == result


def reporting(folder, **verdicts):
    """Return the command of a suite that writes a report."""
    rows = [
        {"id": key.replace("_", "-"), "verdict": v, "finding": {"where": ["gpu-1"]}}
        for key, v in verdicts.items()
    ]
    code = (
        f"import pathlib, sys; p = pathlib.Path(sys.argv[1]) / 'latest'; p.mkdir(parents=True);"
        f"(p / 'report.json').write_text({json.dumps(json.dumps({'requirements': rows}))})"
    )
    return [sys.executable, "-c", code, str(folder)]


def test_trials_are_run_as_far_as_the_time_goes_and_taken_back(module, monkeypatch, tmp_path):
    """What comes too late is `not run`; a fault that was not planted is said, and what was planted is taken back."""
    table, trials, plant = module("table"), module("trials"), module("plant")
    monkeypatch.setattr(trials.Trial, "command", lambda _, __, out: reporting(out, INV_002="fail"))
    back = []

    def planted(rows):
        rows.finish()
        return "seen"

    def missed(_):
        raise FileNotFoundError("no process was found")

    def stuck():
        raise plant.NotPlanted("still away")

    chosen = [
        trial(module, "INV-002", planting=planted, undoing=lambda: back.append(1)),
        trial(module, "INV-002", planting=missed, undoing=lambda: back.append(2)),
        trial(module, "INV-002", planting=planted, undoing=stuck),
    ]
    for number, each in enumerate(chosen):
        object.__setattr__(each, "name", str(number))
    said = []
    lines = table.run(chosen, (), tmp_path, 300.0, said.append)
    assert [line.result for line in lines] == ["as expected", "not planted", "NOT as expected"]
    assert back == [1, 2]
    assert lines[1].shown == "no process was found"
    assert "not taken back: still away" in lines[2].shown
    assert (tmp_path / "planted.md").read_text().count("\n") == 5
    assert len(json.loads((tmp_path / "planted.json").read_text())) == 3
    late = table.run(chosen[:1], (), tmp_path / "0", 1.0, said.append)
    assert [line.result for line in late] == ["not run"]


def test_rows_that_end_before_anything_was_planted_are_not_awaited(module, tmp_path):
    """A run that ends at once costs no more time on the machine."""
    trials, failure = module("trials"), module("failure")
    rows = trials.Rows(reporting(tmp_path / "out"), tmp_path / "out", float("inf"))
    rows.start()
    rows.finish()

    def look(_):
        raise failure.Failed("0 of 2 run")

    with pytest.raises(failure.Failed, match="the rows had ended before: 0 of 2 run"):
        rows.beside(look)


def test_names_of_faults_are_checked(module, settings):
    """All are there, the longest one last; an unknown one is said with those that exist."""
    table, trials, failure = module("table"), module("trials"), module("failure")
    module("declared").file().write_text("fabric: {stall_bound: 15}\n")
    every = list(trials.every(settings))
    assert [each.name for each in every] == [
        "plugin-restarted", "plugin-away", "gpu-left-out", "member-killed", "all-devices", "gpu-burned",
    ]  # fmt: skip
    assert [each.name for each in table.choose(every, ["gpu-burned"])] == ["gpu-burned"]
    with pytest.raises(failure.Failed, match="--only gpu-burnt: there are plugin-restarted, plugin-away"):
        table.choose(every, ["gpu-burnt"])


def test_a_gpu_that_is_not_there_is_not_burnt(module, settings):
    """It is not planted, and no process of it stays."""
    plant = module("plant")
    with pytest.raises(plant.NotPlanted, match="are not there"), plant.gpu_burned(settings, 0):
        pass


@pytest.mark.parametrize(
    ("words", "products"),
    [("print(50); print(100); print(150)", 0), ("", 0), ("print('Traceback')", 0)],
)
def test_a_burning_process_that_has_ended_does_not_burn(module, words, products):
    """What it did before does not count."""
    burner = module("burner")
    with subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE, text=True) as child:
        burning = burner.Reader(child)
        burning.begun()
        child.wait()
        burning.follower.join()
        assert burning.done()[0] == products


def test_a_burning_process_tells_its_products(module):
    """Those since it began, while it goes on."""
    burner = module("burner")
    # As the real one: whatever was read already, another word comes.
    words = "import time\nfor n in range(1, 10**6): print(n * 50, flush=True); time.sleep(0.05)"
    with subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE, text=True) as child:
        burning = burner.Reader(child)
        assert burning.begun()
        assert burning.done()[0] > 0
        child.kill()


@pytest.mark.parametrize(
    ("devices", "source", "target"), [("nvidia", "/dev", "/dev"), ("fake", "", "/dev/gpucluster")]
)
def test_the_profile_of_all_devices_is_that_of_the_cluster_and_one_volume_more(
    module, settings, devices, source, target
):
    """What else is declared stays; the cluster's own profile is not touched."""
    declared, plant, module_settings = module("declared"), module("plant"), module("settings")
    settings = module_settings.Settings(settings.nodes, devices, 2)
    text = yaml.safe_dump(declared.profile(settings, {"bind_spread": 2.0}), sort_keys=False)
    declared.file().write_text(text)
    plant.all_devices(settings)
    assert declared.file().read_text() == text
    made = yaml.safe_load(declared.file().with_name(f"{plant.ALL_DEVICES}.yaml").read_text())
    spec, before = made["overlay"]["spec"], yaml.safe_load(text)["overlay"]["spec"]
    assert spec["volumes"][:-1] == before["volumes"]
    assert spec["volumes"][-1]["hostPath"]["path"] == (source or str(module("places").STATE / "devices"))
    assert spec["containers"][0]["volumeMounts"][-1]["mountPath"] == target
    assert made["bind_spread"] == 2.0


def test_a_cluster_that_is_not_declared_is_said(module, settings):
    """One line with what to do."""
    plant, failure = module("plant"), module("failure")
    with pytest.raises(failure.Failed, match="`declare` writes it"):
        plant.all_devices(settings)
