"""Payload programs in ConfigMaps: each with the files that it imports, found by reading it."""

import ast
import sys

import pytest

from pytest_gpucluster.workload import payload

OTHERS = {"grpc", "mpi4py", "pynvml", "torch"}
"""Packages of others that a payload may import: those of its image."""


def programs():
    """Return the names of all payload files."""
    return sorted(path.name for path in payload.payload_folder().glob("*.py") if path.stem != "__init__")


def imported(text):
    """Return the first part of each module that a text imports."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a script has no package to import from"
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("name", programs())
def test_what_a_program_imports_is_mounted_beside_it(name):
    """Of ours it imports what its ConfigMap holds, and of others what its image holds."""
    files = payload.config_map("c", name)["data"]
    needed = set().union(*map(imported, files.values())) - sys.stdlib_module_names - OTHERS
    assert {name, *(f"{module}.py" for module in needed)} == set(files)


def test_files_that_files_import_come_too():
    """Through gauges.py a program has lines.py; what is shared comes once, the program first."""
    assert list(payload.payload_files("gemm.py")) == ["gemm.py", "gauges.py", "lines.py"]
    assert list(payload.payload_files("gemm.py", "train_step.py")) == [
        "gemm.py", "train_step.py", "gauges.py", "lines.py",
    ]  # fmt: skip
    assert list(payload.payload_files("device_plugin.py")) == ["device_plugin.py"]


def test_imports_of_files_are_followed_wherever_they_stand(tmp_path, monkeypatch):
    """In a function, of several names, of a file that imports the first again; packages of others are left out."""
    for name, text in {
        "gang.py": "def act():\n    import os, second\n",
        "second.py": "import os.path\nfrom third import THREE\n",
        "third.py": "import gang, os.path, json\nTHREE = 3\n",
        "json": "",
        "fourth.py": "",
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(payload, "payload_folder", lambda: tmp_path)
    assert list(payload.payload_files("gang.py")) == ["gang.py", "second.py", "third.py"]


def test_a_program_that_is_not_there_is_one_line():
    """It names those that are."""
    with pytest.raises(payload.PayloadError, match=r"^no payload 'gnag\.py' \(there are: access\.py, .*\)$"):
        payload.payload_files("gang.py", "gnag.py")
