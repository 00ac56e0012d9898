"""What CONTRIBUTING.md says about files holds: where tables stand, and which programs write only if told to."""

import importlib
import pathlib
import pkgutil
import runpy
import sys

import pytest

from pytest_gpucluster import mutants
from suites import defects

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

ELSEWHERE = {"refusal_contention": "contention", "refusal_admission": "flickers", "earlier": "flickers"}
"""Modules of mutants whose table is not that of their area, as the page says."""


def test_the_table_of_each_mutant_is_where_the_page_says():
    """In the file of its area, but for those that the page names."""
    tables = {
        name: module.name
        for module in pkgutil.iter_modules(defects.__path__)
        for name in getattr(importlib.import_module(f"suites.defects.{module.name}"), "MUTANT_FLIPS", {})
    }
    found = {}
    for module in pkgutil.iter_modules(mutants.__path__):
        made = importlib.import_module(f"pytest_gpucluster.mutants.{module.name}")
        for name in getattr(made, "MUTANTS", {}):
            found.setdefault(module.name, set()).add(tables[name])
    files = {path.stem for path in (ROOT / "suites" / "defects").glob("*.py")}
    for name, at in found.items():
        area = name if name in files else name.partition("_")[0]
        assert at == {ELSEWHERE.get(name, area)}, name
    assert all(f"`{name}`" in TEXT and f"`suites/defects/{at}.py`" in TEXT for name, at in ELSEWHERE.items())


@pytest.mark.parametrize(
    "program",
    [
        "docs.generate", "docs.manifests", "tests.defects.construct", "tests.defects.construct_speed",
        "tests.defects.construct_alignment", "tests.defects.record",
    ],
)  # fmt: skip
@pytest.mark.parametrize(("word", "status"), [("--help", 0), ("--halp", 2)])
def test_a_program_that_writes_helps_whom_asks(program, word, status, monkeypatch, capsys):
    """And writes nothing then, nor for a slip."""
    monkeypatch.setattr(sys, "argv", [program, word])
    monkeypatch.setattr(pathlib.Path, "write_text", lambda *_, **__: pytest.fail("it wrote"))
    monkeypatch.delitem(sys.modules, program, raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(program, run_name="__main__")
    assert ended.value.code == status
    told = capsys.readouterr()
    assert f"usage: python -m {program}" in told.out + told.err
