"""Faulty hardware is played under programs that know nothing of it."""

import os
import subprocess
import sys

import pytest

from pytest_gpucluster.node import defects, faults
from pytest_gpucluster.plain.planted import IMAGE_WITHOUT_CLIENT

PRODUCT = "import torch; eye = torch.eye(3); print(torch.mm(eye, eye).flatten().tolist())"
REDUCED = """
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
value, most = torch.ones(3), torch.ones(3)
dist.all_reduce(value)
dist.all_reduce(most, op=dist.ReduceOp.MAX)
gathered = torch.zeros(3)
dist.all_gather_into_tensor(gathered, torch.ones(3))
count = torch.ones(3, dtype=torch.int64)
dist.all_reduce(count)
print(value.tolist(), most.tolist(), gathered.tolist(), count.tolist(), flush=True)
# The threads of a group that nobody ends may end the process with SIGABRT.
dist.destroy_process_group()
"""


def run(program, *planted):
    """Return what a program prints under faults."""
    env = {**os.environ, **faults.variables(defects.check(planted))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_nothing_is_planted_where_no_fault_is():
    """Other defects put nothing into a container."""
    assert faults.variables(defects.check([])) == {}
    assert faults.variables(defects.check([defects.SHARES_A_DEVICE])) == {}


def test_a_program_without_torch_notices_nothing():
    """It imports what it needs and ends as always."""
    assert run("import json; print(json.dumps(1))", *faults.PLAYED) == "1"


def test_an_image_lacks_one_package_as_if_nobody_had_installed_it():
    """Python's own words, and nothing else is missing."""
    lines = "try:\n import etcd\nexcept ModuleNotFoundError as error:\n print(error.name, error)"
    assert run(lines, IMAGE_WITHOUT_CLIENT) == "etcd No module named 'etcd'"
    assert run("import urllib3; print('there')", IMAGE_WITHOUT_CLIENT) == "there"


def test_products_and_sums_have_one_wrong_element():
    """Each fault spoils its own; what ranks agree by, and what they count, stays."""
    pytest.importorskip("torch")
    assert run(PRODUCT, defects.CORRUPTS_COLLECTIVES) == "[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]"
    assert run(PRODUCT, defects.CORRUPTS_PRODUCTS) == "[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 3.0]"
    sound, most, count = "[1.0, 1.0, 1.0]", "[1.0, 1.0, 1.0]", "[1, 1, 1]"
    assert run(REDUCED, defects.CORRUPTS_PRODUCTS) == f"{sound} {most} {sound} {count}"
    spoilt = run(REDUCED, defects.CORRUPTS_COLLECTIVES)
    assert spoilt.startswith("[1.0, 1.0, 3.0] [1.0, 1.0, 1.0] [")
    assert spoilt.endswith(count)
    assert "[1.0, 1.0, 1.0] [1, 1, 1]" not in spoilt
