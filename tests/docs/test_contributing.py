"""Programs that CONTRIBUTING.md names write only if told to."""

import pathlib
import runpy
import sys

import pytest


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
