"""The payloads that tell what a container sees: one line whatever the machine is, and drivers that misbehave."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from payloads import access, numa

FOLDER = Path(access.__file__).parent


def said(program, *, folder=None, **environment):
    """Run a payload as a container does; returns the one fact that it printed."""
    env = {"PATH": os.environ["PATH"], "GPUCLUSTER_POD": "p-0", "GPUCLUSTER_CONTAINER": "c", **environment}
    command = [sys.executable, str((folder or FOLDER) / program)]
    done = subprocess.run(command, capture_output=True, env=env, check=True, timeout=120)
    (line,) = done.stdout.decode().splitlines()
    assert len(done.stdout) < 4096
    marker, _, text = line.partition(" ")
    assert marker == "GPUCONF1"
    return json.loads(text)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, []),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, []),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, []),
        ({"NVIDIA_VISIBLE_DEVICES": "GPU-a, GPU-b"}, ["GPU-a", "GPU-b"]),
        ({"GPUCLUSTER_DEVICES": "GPU-a@0,GPU-b", "NVIDIA_VISIBLE_DEVICES": "x"}, ["GPU-a", "GPU-b"]),
    ],
)
def test_what_a_container_was_told(environment, expected):
    """Words that stand for all or none are no devices."""
    told = said("access.py", **environment)
    assert (told["event"], told["pod"], told["container"]) == ("access", "p-0", "c")
    assert (told["told"], told["count"]) == (expected, len(expected))


def test_many_devices_fit_into_one_write():
    """More are counted than named."""
    ids = ",".join(f"GPU-{n:08d}-1111-2222-3333-444444444444@1" for n in range(40))
    assert said("access.py", GPUCLUSTER_DEVICES=ids)["count"] == 40
    assert len(said("numa.py", GPUCLUSTER_DEVICES=ids)["devices"]) == 16


def test_device_files_and_whether_they_open(tmp_path, monkeypatch):
    """A file that is there and does not open says why."""
    (tmp_path / "gpu0").touch()
    (tmp_path / "gpu1").mkdir()
    assert access.files((f"{tmp_path}/gpu*",)) == [{"path": f"{tmp_path}/gpu0", "opens": True}]

    def refused(*_args):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(access.os, "open", refused)
    (found,) = access.files((f"{tmp_path}/gpu*",))
    assert found == {"path": f"{tmp_path}/gpu0", "opens": False, "why": "Operation not permitted"}


class Driver:
    """What stands for NVIDIA's driver library."""

    def __init__(self, count=1, init=0):
        """Take how many GPUs it lists, and what its first call returns."""
        self.count = count
        self.init = init

    def cuInit(self, _flags):  # noqa: N802
        """Begin."""
        return self.init

    def cuDeviceGetCount(self, count):  # noqa: N802
        """Count."""
        ctypes.cast(count, ctypes.POINTER(ctypes.c_int))[0] = self.count
        return 0

    def cuDeviceGet(self, device, index):  # noqa: N802
        """Name one."""
        ctypes.cast(device, ctypes.POINTER(ctypes.c_int))[0] = index
        return 0

    def cuDeviceGetUuid(self, raw, _device):  # noqa: N802
        """Tell its UUID."""
        ctypes.memset(raw, 0x11, 16)
        return 0

    def cuDeviceGetPCIBusId(self, text, _length, _device):  # noqa: N802
        """Tell its address."""
        text.value = b"0000:1B:00.0"
        return 0


def test_what_a_driver_lists():
    """UUIDs and addresses as text; a driver that does not begin lists nothing and says with what result."""
    one = {"uuid": "11111111-1111-1111-1111-111111111111", "pci": "0000:1b:00.0"}
    assert access.cuda(Driver()) == {"result": 0, "count": 1, "devices": [one]}
    assert access.cuda(Driver(init=100)) == {"result": 100, "devices": []}
    assert access.cuda(Driver(count=30))["count"] == 30
    assert len(access.cuda(Driver(count=30))["devices"]) == access.ENOUGH


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("import os, sys; os.kill(os.getpid(), 11)", "ended with -11"),
        ("import time; time.sleep(60)", "did not answer within 0.5 s"),
        ("print('half a line {')", "ended with 0"),
    ],
)
def test_a_driver_that_dies_or_hangs_is_told_as_such(tmp_path, monkeypatch, body, why):
    """The call stands in a process of its own, so that the line is printed all the same."""
    program = tmp_path / "access.py"
    program.write_text(body)
    monkeypatch.setattr(access, "__file__", str(program))
    monkeypatch.setattr(access, "SECONDS", 0.5)
    found = access.called()
    assert found["library"] == "?"
    assert why in str(found["why"])


def test_hiding_variables_do_not_reach_the_driver(tmp_path, monkeypatch):
    """What could be unset by the program itself is no isolation."""
    program = tmp_path / "access.py"
    program.write_text(
        "import json, os; print(json.dumps({'hidden': os.environ.get('CUDA_VISIBLE_DEVICES')}))"
    )
    monkeypatch.setattr(access, "__file__", str(program))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert access.called() == {"hidden": None}


def test_where_cpus_and_memory_lie():
    """As the machine says: pages that were written to, NUMA nodes of the CPUs that may be used."""
    told = said("numa.py")
    assert told["event"] == "devices"
    assert told["cpus"]
    if Path("/proc/self/numa_maps").exists():
        pages = told["memory"]["pages"]
        assert sum(pages.values()) >= numa.TRIAL // os.sysconf("SC_PAGE_SIZE") * 0.9
        assert {int(node) for node in pages} <= set(numa.listed(told["nodes"]))
    if Path("/sys/devices/system/node/node0").exists():
        assert set(told["cpu_nodes"]) <= set(numa.listed(told["nodes"]))


@pytest.mark.parametrize(("text", "expected"), [("0-2,8", [0, 1, 2, 8]), ("", []), ("x", []), (" 3 ", [3])])
def test_lists(text, expected):
    """What is no list names nothing."""
    assert numa.listed(text) == expected
