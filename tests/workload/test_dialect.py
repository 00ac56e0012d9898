"""Dialects: each answers all that is asked of a scheduler, and nobody decides by a scheduler's name."""

import ast
import pathlib

import pytest

from pytest_gpucluster.workload import dialect, protocol
from tests.endtoend.harness import ROOT

QUESTIONS = {name: what for name, what in vars(protocol.Dialect).items() if not name.startswith("_")}

ALLOWED = {
    "pytest_gpucluster/scenario/spec.py": "TRN-003 tries native gangs also if they are the main ones",
}
"""Files that compare a scheduler's name, with the reason."""


@pytest.mark.parametrize("name", dialect.DIALECTS)
def test_each_dialect_answers_every_question(name):
    """A question that is left unanswered is told here, and not in the middle of a run."""
    spoken = dialect.dialect_for(name)
    missing = [question for question in QUESTIONS if not hasattr(spoken, question)]
    assert missing == []
    assert len(QUESTIONS) > 15


def _by_name(path: pathlib.Path) -> list[str]:
    """Return where a file compares the name of a scheduler."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
            if any(side.endswith(("dialect.name", "profile.scheduler")) for side in sides):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
    return found


def test_nobody_decides_by_the_name_of_a_scheduler():
    """What differs between schedulers is a question to the dialect: a new one touches no scenario."""
    folders = (
        ROOT / "suites",
        ROOT / "pytest_gpucluster" / "scenario",
        ROOT / "pytest_gpucluster" / "fixtures",
    )
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    asked = [where for file in files for where in _by_name(file)]
    assert {where.split(":")[0] for where in asked} == set(ALLOWED), asked
