"""Interpreters of the embedded cluster start and end sooner, and import what they would have imported anyway."""

import os
import subprocess
import sys

import pytest

from pytest_gpucluster.node import defects, faults, images
from pytest_gpucluster.provider import embedded_config

TOLD = "import atexit, gc, sys; print(gc.get_threshold()); atexit._run_exitfuncs(); print(gc.get_freeze_count() > 0)"


def run(program, *folders):
    """Return what a program of an interpreter with these folders on its path wrote."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
    )  # fmt: skip
    return done.stdout.splitlines(), done.stderr


def test_garbage_is_looked_for_seldom_and_not_at_the_end():
    """Without the folder the thresholds are Python's own, and nothing is frozen."""
    assert run(TOLD, images.STARTUP)[0] == ["(20000, 50, 10)", "True"]
    found, _ = run(TOLD)
    assert found[0] != "(20000, 50, 10)"
    assert found[1] == "False"


def test_garbage_is_still_collected():
    """A program that leaves cycles does not grow without bound."""
    program = (
        "import gc, weakref\n"
        "class Node: pass\n"
        "left = weakref.WeakSet()\n"
        "for _ in range(50_000):\n"
        "    node = Node(); node.self = node; left.add(node)\n"
        "print(len(left) < 45_000)"
    )
    assert run(program, images.STARTUP)[0] == ["True"]


def test_another_one_behind_it_is_imported(tmp_path):
    """Whoever asks for the module afterwards gets that one; without one it is the module itself, and no error."""
    (tmp_path / "sitecustomize.py").write_text("WHO = 'the other'\nprint('imported')\n")
    asked = "import sitecustomize; print(getattr(sitecustomize, 'WHO', 'itself'))"
    assert run(asked, images.STARTUP, tmp_path) == (["imported", "the other"], "")
    assert run(asked, images.STARTUP) == (["itself"], "")


def test_an_error_behind_it_is_told(tmp_path):
    """Python says in which module it happened, as it would have without this one."""
    (tmp_path / "sitecustomize.py").write_text("import no_such_module\n")
    _, said = run("pass", images.STARTUP, tmp_path)
    assert "no_such_module" in said


def test_faults_are_planted_behind_it():
    """A fault's own `sitecustomize` is the next one."""
    path = str(images.STARTUP)
    assert faults.variables(defects.check([]), path) == {}
    planted = faults.variables(defects.check([defects.CORRUPTS_PRODUCTS]), path)
    assert planted["PYTHONPATH"].split(os.pathsep) == [path, str(faults.FOLDER)]


@pytest.mark.parametrize("role", ["python", "torch"])
def test_images_of_the_embedded_cluster_have_it(role):
    """Their program is this interpreter, wherever it lies."""
    found = embedded_config.program_of(role)
    assert found["entrypoint"] == [sys.executable]
    assert found["env"] == {"PYTHONPATH": str(images.STARTUP)}
