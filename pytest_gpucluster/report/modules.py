"""Import the modules in which a site declares requirements of its own: a file, or a dotted name."""

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import DeclarationError


class SuiteError(Exception):
    """A module with requirements that cannot be imported; the text names it and says why."""


def load(module: str) -> None:
    """Import a module that a user names; one that is imported already is not imported again.

    A file is imported as pytest imports it: under its name below the nearest folder that is no package, and with that
    folder on the path, so that what lies beside it is found. The present folder is on the path as with
    `python -m pytest`.

    Args:
        module: path of a Python file (it ends with `.py` or has a slash), or a dotted name.

    Raises:
        SuiteError: no such file or module, or one that fails to import.
    """
    _reach(Path.cwd())
    if module.endswith(".py") or os.sep in module:
        _load_file(module)
    else:
        attempt(module, lambda: importlib.import_module(module))


def attempt(told: str, do: Callable[[], object]) -> None:
    """Import something; whatever its code does ends in one line.

    Raises:
        SuiteError: it failed; names what was to be imported.
    """
    try:
        do()
    except KeyboardInterrupt:
        raise
    except DeclarationError as error:
        raise SuiteError(f"cannot import {told}: {error}") from error
    except BaseException as error:
        # pytest.skip and sys.exit at the top of a module are no Exception.
        raise SuiteError(f"cannot import {told}: {type(error).__name__}: {error}") from error


def file_of(module: ModuleType) -> Path | None:
    """Return the file of a module that is imported, links followed; None for a module without one."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    # What is relative depends on the present folder, which changes.
    return _followed(file) if file.startswith(os.sep) else Path(file).resolve()


def named(row: Mapping[str, Any]) -> str:
    """Return how the module of a recorded row is named on a command line: by its file, if the record has it."""
    return str(row["nodeid"].partition("::")[0] or row["where"].partition(":")[0])


def _load_file(told: str) -> None:
    path = Path(os.path.abspath(told))  # noqa: PTH100 - absolute() keeps `..`, resolve() follows links
    if not path.is_file():
        beside = [item.name for item in path.parent.glob("*.py")] if path.parent.is_dir() else []
        near = names.nearest(path.name, beside)
        hint = f"; did you mean {str(Path(told).with_name(near))!r}?" if near else ""
        what = "is a folder: name its files" if path.is_dir() else "no such file"
        raise SuiteError(f"module {told!r}: {what}{hint}")
    file = path.resolve()
    if any(file_of(module) == file for module in list(sys.modules.values())):
        return
    root, name = _place(path)
    other = sys.modules.get(name)
    if other is not None:
        raise SuiteError(
            f"module {told!r}: another module is also called {name} ({getattr(other, '__file__', None)}); "
            "name this one by its dotted name"
        )
    _reach(root)
    attempt(told, lambda: _execute(name, path))


def _place(path: Path) -> tuple[Path, str]:
    """Return the first folder upwards that is no package, and the dotted name of the file below it."""
    folder, parts = path.parent, [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _execute(name: str, path: Path) -> None:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Before it is executed: dataclasses look their module up.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _reach(folder: Path) -> None:
    """Let modules of a folder be found, before others of their names, as in pytest."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@functools.cache
def _followed(file: str) -> Path:
    """Return where links lead; a process has thousands of modules, and looks through them at each reading of a run."""
    return Path(file).resolve()
