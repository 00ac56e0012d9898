"""The payload that asks drivers for the health of GPUs: by a stand-in of NVML, by a program, by files of the kernel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import payloads
from payloads import gpu_health
from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.node import faults

FOLDER = Path(payloads.__file__).parent


def told(**environment):
    """Return the facts that the payload prints as a container runs it."""
    env = {"PATH": "/none", "GPUCLUSTER_POD": "p-0", "NODE_NAME": "n1", **environment}
    command = [sys.executable, str(FOLDER / "gpu_health.py"), "--no-kernel-log"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True, timeout=60)
    return [obj for line in done.stdout.splitlines() for obj in payload_lines.find(line)[0]]


def test_played_gpus_answer_as_nvml():
    """One line each, and one for the kernel's log; the planted fault is of the last one."""
    played = {"PYTHONPATH": str(faults.LIBRARIES), "GPUCLUSTER_DEVICES": "GPU-a@0,GPU-b@1"}
    first, second, log = told(**played, **{faults.OF_GPUS: "row-remap-pending"})
    assert [one["gpu"]["uuid"] for one in (first, second)] == ["GPU-a", "GPU-b"]
    assert [one["gpu"]["pending"] for one in (first, second)] == [0, 1]
    assert (first["how"], first["gpu"]["recovery"], log["gpus"], log["readable"]) == ("nvml", 0, 2, False)


def test_a_container_without_a_driver_says_which_ways_it_tried():
    """Nothing is told of GPUs then."""
    if Path("/sys/class/drm").exists() and gpu_health.by_ras():
        pytest.skip("this machine has GPUs of AMD")
    (log,) = told()
    assert log["gpus"] == 0
    assert [one.partition(":")[0] for one in log["problems"]] == ["nvml", "nvidia-smi"]


SMI = """#!/bin/sh
case "$1" in *gpu_recovery_action*) {recovery};; esac
echo "{row}"
"""


@pytest.mark.parametrize(
    ("row", "recovery", "expected"),
    [
        ("GPU-a, 00000000:01:00.0, NVIDIA H200, Enabled, 0, No, No, None", "", {"pending": 0, "recovery": 0, "ecc": 1}),
        ("GPU-a, 00000000:01:00.0, NVIDIA H200, Enabled, 2, Yes, No, Reset", "",
         {"pending": 1, "uncorrected": 2, "recovery": "Reset"}),
        ("GPU-a, 00000000:01:00.0, NVIDIA H200, Enabled, 0, No, No, Drain P2P", "", {"recovery": "Drain P2P"}),
        ("GPU-a, 00000000:01:00.0, NVIDIA H200, Enabled, 0, No, No, Drain and Reset", "",
         {"recovery": "Drain and Reset"}),
        ("GPU-a, 00000000:01:00.0, NVIDIA H200, Enabled, ERR!, ERR!, N/A, ERR!", "",
         {"uncorrected": None, "pending": None, "failed": None, "recovery": None}),
        ("GPU-a, 00000000:01:00.0, NVIDIA H200, Enabled, 0, No, No, [Unknown Error]", "", {"recovery": None}),
        ("GPU-a, 00000000:01:00.0, NVIDIA T4, Disabled, [N/A], [N/A], [N/A]", "exit 2",
         {"pending": None, "uncorrected": None, "recovery": None, "ecc": 0}),
        ("[GPU requires reset]", "", {"lost": True}),
    ],
)  # fmt: skip
def test_nvidia_smi_where_there_is_no_nvml(tmp_path, monkeypatch, row, recovery, expected):
    """Words in brackets stand for nothing; drivers that do not know a field are asked without it."""
    program = tmp_path / "nvidia-smi"
    program.write_text(SMI.format(row=row, recovery=recovery or ":"), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (gpu,) = gpu_health.by_smi()
    assert expected.items() <= gpu.items()


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (b"<5>[    0.000000] Linux version 6.8\n<4>[9.0] NVRM: Xid (PCI:0000:3b:00): 79, x\n", (True, 1)),
        (b"<6>[    0.000000][    T0] Booting Linux on physical CPU 0\n", (True, 0)),
        (b"<5>Linux version 6.8 (gcc)\n", (True, 0)),
        (
            b"<6>[18680.205017] pod259: left promiscuous mode\n<4>[18681.0] NVRM: Xid (PCI:0000:3b:00): 79\n",
            (False, 1),
        ),
        (b"<6>[10.000000] x\n" * 20 + b"<6>[    0.000000] y\n", (False, 0)),
    ],
)
def test_a_log_of_the_kernel_says_whether_it_reaches_back_to_the_boot(monkeypatch, log, expected):
    """Its buffer is bounded, and what a reader asks for must have room for all of it."""
    sizes = []

    class Libc:
        def klogctl(self, action, buffer, length):
            if action != gpu_health.READ_ALL:
                return 1 << 20
            sizes.append(length)
            buffer[: len(log)] = log
            return len(log)

    monkeypatch.setattr(gpu_health.ctypes, "CDLL", lambda *_, **__: Libc())
    found = gpu_health.kernel_log()
    assert (found["from_boot"], found["count"], sizes) == (*expected, [4 << 20])


def test_files_of_the_kernel_for_gpus_of_amd(tmp_path, monkeypatch):
    """Errors of all blocks together, and pages that wait; a card of another vendor is passed over."""
    for number, vendor in enumerate(("0x1002", "0x10de")):
        device = tmp_path / f"card{number}" / "device"
        (device / "ras").mkdir(parents=True)
        (device / "vendor").write_text(vendor)
        (device / "unique_id").write_text(f"id{number}\n")
        (device / "ras" / "umc_err_count").write_text("ue: 2\nce: 5\n")
        (device / "ras" / "gfx_err_count").write_text("ue: 1\nce: 0\n")
        (device / "ras" / "gpu_vram_bad_pages").write_text("0x1 : 0x1000 : R\n0x2 : 0x1000 : P\n")
    monkeypatch.setattr(gpu_health, "DRM", tmp_path)
    (gpu,) = gpu_health.by_ras()
    assert (gpu["uuid"], gpu["uncorrected"], gpu["pending"], gpu["failed"]) == ("id0", 3, 1, 0)


def test_files_that_are_not_there_tell_nothing(tmp_path, monkeypatch):
    """Null, never 0."""
    device = tmp_path / "card0" / "device"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x1002")
    monkeypatch.setattr(gpu_health, "DRM", tmp_path)
    (gpu,) = gpu_health.by_ras()
    assert (gpu["uncorrected"], gpu["pending"], gpu["ecc"]) == (None, None, None)
