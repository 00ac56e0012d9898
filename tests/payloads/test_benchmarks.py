"""Benchmarks use payloads as modules: what they import from them is there, without a GPU and without torch."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAYLOADS = {path.stem: path for path in (ROOT / "payloads").glob("*.py")}


def names(module):
    """Return what a module defines or imports at its top."""
    found = set()
    for each in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(each, ast.FunctionDef | ast.ClassDef):
            found.add(each.name)
        elif isinstance(each, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in each.names}
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            found |= {part.id for one in targets for part in ast.walk(one) if isinstance(part, ast.Name)}
    return found


def used(program):
    """Return (module, name) of what a program takes from payloads, by import or as an attribute of a module."""
    tree, modules = ast.parse(program.read_text(encoding="utf-8")), {}
    for each in ast.walk(tree):
        if isinstance(each, ast.ImportFrom) and each.module in PAYLOADS:
            yield from ((each.module, alias.name) for alias in each.names)
        elif isinstance(each, ast.Import):
            modules |= {
                alias.asname or alias.name: alias.name for alias in each.names if alias.name in PAYLOADS
            }
    for each in ast.walk(tree):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in modules:
            yield modules[each.value.id], each.attr


@pytest.mark.parametrize("program", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_what_a_benchmark_takes_from_payloads_is_there(program):
    """A name that moved to another module is found here, not in a session on a GPU machine."""
    missing = sorted(
        f"{module}.{name}" for module, name in set(used(program)) if name not in names(PAYLOADS[module])
    )
    assert missing == []


def test_the_benchmark_of_checkpoints_takes_some():
    """The look itself finds what is there to be found."""
    found = set(used(ROOT / "benchmarks" / "checkpoint.py"))
    assert {("checkpoint", "Run"), ("lines", "place_in_world")} <= found
