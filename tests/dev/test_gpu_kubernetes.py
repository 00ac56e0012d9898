"""The tool of dev/gpu-kubernetes, as far as it needs neither root nor a cluster: what it refuses, and its archives."""

import hashlib
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "dev" / "gpu-kubernetes"


@pytest.fixture
def module(monkeypatch, tmp_path):
    """Give modules of the tool, whose parts and cluster lie in folders of the test's own."""
    monkeypatch.syspath_prepend(HERE)
    home = tmp_path / "home"
    home.mkdir()
    places = importlib.import_module("gpu_server.places")
    monkeypatch.setattr(places, "HOME", home)
    monkeypatch.setattr(places, "STATE", tmp_path / "state")
    return importlib.import_module


def proc(folder, *, overlay=True, memory=32 << 20):
    """Write what a machine tells of itself."""
    folder.mkdir()
    known = "overlay" if overlay else "overlayfs"
    (folder / "filesystems").write_text(f"nodev\ttmpfs\n\text4\nnodev\t{known}\n")
    (folder / "meminfo").write_text(f"MemTotal:       {memory} kB\nMemFree:        1 kB\n")
    return folder


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"overlay": False}, "this kernel has no overlayfs"),
        ({"memory": 3 << 20}, "3.0 GiB of memory are too little: a cluster of 2 node(s) needs 6.0 GiB"),
    ],
)
def test_a_machine_that_cannot_carry_a_cluster_is_refused_in_one_line(
    module, tmp_path, monkeypatch, how, says
):
    """It says what is missing, before anything is made."""
    machine, failure = module("gpu_server.machine"), module("gpu_server.failure")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    machine.check(2, proc=proc(tmp_path / "good"))
    with pytest.raises(failure.Failed) as error:
        machine.check(2, proc=proc(tmp_path / "proc", **how))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_only_root_can_bring_it_up(module, tmp_path, monkeypatch):
    """Who is not root is told before the kernel refuses a namespace."""
    machine, failure = module("gpu_server.machine"), module("gpu_server.failure")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(failure.Failed, match="only root"):
        machine.check(1, proc=proc(tmp_path / "proc"))


def groups(folder, *names):
    """Write the roots of control groups: files below a folder."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("cpuset cpu io memory hugetlb pids\n" if "controllers" in name else "")
    return folder


ONE = [f"{name}/cgroup.procs" for name in ("cpu", "cpuset", "memory", "pids")]


@pytest.mark.parametrize(
    ("files", "version"),
    [(["cgroup.controllers"], 2), (ONE, 1), ([*ONE, "unified/cgroup.controllers"], 1)],
)
def test_the_version_of_control_groups_is_that_which_has_the_controllers(module, tmp_path, files, version):
    """Where both are mounted, version 2 beside the other has none of them."""
    assert module("gpu_server.kernel").version(groups(tmp_path / "cgroup", *files)) == version


@pytest.mark.parametrize("files", [["unified/cgroup.procs"], ONE[1:]])
def test_no_usable_control_groups_are_said(module, tmp_path, files):
    """One line with the controllers that are missing."""
    failure = module("gpu_server.failure")
    with pytest.raises(
        failure.Failed, match=r"neither version of control groups is usable .*no controllers cpu"
    ):
        module("gpu_server.kernel").version(groups(tmp_path / "cgroup", *files))


def test_a_machine_without_nvml_is_refused(module, tmp_path, monkeypatch):
    """The folders that were searched are named; a library that is none is another line."""
    machine, failure = module("gpu_server.machine"), module("gpu_server.failure")
    monkeypatch.setattr(machine, "LIBRARIES", (str(tmp_path / "a"), str(tmp_path / "b")))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    with pytest.raises(failure.Failed, match=r"no libnvidia-ml\.so\.1 in .*/a, .*/b: no driver of NVIDIA"):
        machine.libraries()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "libnvidia-ml.so.1").write_text("not a library")
    assert machine.libraries() == (str(tmp_path / "b"),)
    with pytest.raises(failure.Failed, match="NVML cannot be loaded"):
        machine.gpus(machine.libraries())


def test_the_fake_plugin_needs_a_package_that_the_archives_have_not(module, monkeypatch):
    """It is said before anything is made."""
    machine, failure = module("gpu_server.machine"), module("gpu_server.failure")
    machine.check_fake()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(failure.Failed, match="has no package grpc"):
        machine.check_fake()


@pytest.mark.parametrize(
    ("lacks", "says"), [("torchrun", "no program torchrun in "), ("torch", "has no package torch")]
)
def test_what_pods_take_from_the_machine_is_looked_for_when_it_is_declared(module, monkeypatch, lacks, says):
    """Not told by pods that do not start."""
    declared, failure = module("gpu_server.declared"), module("gpu_server.failure")
    assert isinstance(declared.packages(), list)
    if lacks == "torchrun":
        monkeypatch.setattr(declared.shutil, "which", lambda *_, **__: None)
    else:
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(failure.Failed, match=says):
        declared.packages()


def test_gpus_are_dealt_over_nodes_in_equal_parts(module):
    """Consecutive ones go to one node; what cannot be dealt is refused."""
    machine, failure = module("gpu_server.machine"), module("gpu_server.failure")
    assert [node.gpus for node in machine.dealt((0, 1, 2, 3), 2)] == [(0, 1), (2, 3)]
    assert len({node.address for node in machine.dealt(tuple(range(60)), 60)}) == 60
    for gpus, nodes in (((0, 1, 2), 2), ((0,), 0), ((0, 1), -1), ((), 61)):
        with pytest.raises(failure.Failed, match=f"--nodes={nodes}"):
            machine.dealt(gpus, nodes)


def test_parts_that_are_missing_name_their_archive(module):
    """Nothing is started with half of the programs."""
    machine, places = module("gpu_server.machine"), module("gpu_server.places")
    failure = module("gpu_server.failure")
    for archive, names in machine.PARTS.items():
        (places.HOME / archive).mkdir()
        for name in names:
            with pytest.raises(failure.Failed, match=f"{name} is missing: unpack the archive {archive}"):
                machine.check_parts()
            (places.HOME / archive / name).touch()
    with pytest.raises(failure.Failed, match="images is missing: unpack the archive programs"):
        machine.check_parts()


@pytest.fixture
def packed(module, tmp_path):
    """Write two archives in pieces, as `pack` does."""
    archives = module("packing.archives")
    for name in ("one", "two"):
        content = tmp_path / f"{name}-content"
        (content / name).mkdir(parents=True)
        (content / name / "data").write_bytes(
            b"".join(hashlib.sha256(bytes([i])).digest() for i in range(200))
        )
        (content / name / "tool").symlink_to("data")
        (tmp_path / name).mkdir()
        archives.compressed(content, tmp_path / name / f"{name}.tar.xz")
    archives.pack(tmp_path / "out", _parts(tmp_path), 3000)
    return tmp_path / "out"


def unpack(packed, *arguments):
    """Run the program that lies beside the archives."""
    return subprocess.run(
        [sys.executable, "unpack", *arguments], cwd=packed, capture_output=True, text=True, check=False
    )


def test_archives_are_cut_and_put_together(packed, tmp_path):
    """No piece is larger than it may be; links and contents are as they were."""
    pieces = sorted(packed.glob("*-of-*"))
    assert len(pieces) > 4
    assert max(each.stat().st_size for each in pieces) <= 3000
    done = unpack(packed, tmp_path / "to")
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("one", "two"):
        there, here = (folder / name / "tool" for folder in (tmp_path / "to", tmp_path / f"{name}-content"))
        assert there.is_symlink()
        assert there.read_bytes() == here.read_bytes()


@pytest.mark.parametrize("how", ["missing", "cut", "changed"])
def test_archives_that_are_not_whole_are_refused_in_one_line(packed, tmp_path, how):
    """The file is named; no traceback."""
    piece = sorted(packed.glob("two.tar.xz.*"))[1]
    data = piece.read_bytes()
    if how == "missing":
        piece.unlink()
    else:
        piece.write_bytes(data[:-7] if how == "cut" else data[:9] + bytes([data[9] ^ 1]) + data[10:])
    done = unpack(packed, tmp_path / "to")
    said = "1 of the packed files are missing" if how == "missing" else "is not what was packed"
    assert done.returncode == 1
    assert said in done.stderr
    assert piece.name in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_archives_are_packed_into_a_folder_of_their_own(module, packed):
    """What lies there is not overwritten."""
    shell = importlib.import_module("dev.kind.kit.shell")
    with pytest.raises(shell.Failed, match="is not empty"):
        module("packing.archives").pack(packed, [], 1)


def test_archives_that_are_too_large_to_carry_are_refused(module, packed, tmp_path):
    """The bound is of all files together; the largest are named."""
    archives, shell = module("packing.archives"), importlib.import_module("dev.kind.kit.shell")
    size = archives.total(list(packed.iterdir()))
    assert size < archives.MOST == 100_000_000
    with pytest.raises(shell.Failed, match=r"0\.0 MB are more than 0 MB: "):
        archives.pack(tmp_path / "again", _parts(tmp_path), 3000, size - 1)


def _parts(folder):
    """Return the parts of `packed` again."""
    cache = importlib.import_module("dev.kind.kit.cache")

    class Made(cache.Part):
        def made(self):
            return folder / self.name

    return [Made(name, lambda _: None) for name in ("one", "two")]


def test_another_python_than_the_archives_are_for_is_said(tmp_path):
    """Compiled packages of one version do not load in another."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "python").write_text("3.99\n")
    tool = tmp_path / "gpu-kubernetes"
    tool.write_bytes((HERE / "gpu-kubernetes").read_bytes())
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(["sh", tool, "up"], env=environment, capture_output=True, text=True, check=False)
    is_ = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert done.returncode == 2
    assert done.stderr.startswith("gpu-kubernetes: the archives are for Python 3.99, but ")
    assert f"is {is_}: name another one in PYTHON" in done.stderr
    assert len(done.stderr.splitlines()) == 1
