"""In a checkout, the suites beside this package under the name that they have once installed.

There `pytest_gpucluster.suites.X` is the very module `suites.X`: no row is declared twice, whichever name is used, and
`pytest --pyargs pytest_gpucluster.suites` works from an editable installation as from a wheel.
"""

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

PACKAGE = "pytest_gpucluster."
NAME = f"{PACKAGE}suites"


class Beside(importlib.abc.Loader):
    """Finds and loads what is asked for below `pytest_gpucluster.suites` (PEP 451)."""

    def __init__(self, root: Path) -> None:
        """Take the folder that holds `suites`."""
        self._root = root

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module of the suites is; None for any other, and for a `suites` of somebody else."""
        del path, target
        if name != NAME and not name.startswith(f"{NAME}."):
            return None
        own = importlib.util.find_spec(name.removeprefix(PACKAGE))
        if own is None or own.origin is None or not Path(own.origin).is_relative_to(self._root):
            return None
        spec = ModuleSpec(name, self, origin=own.origin)
        spec.submodule_search_locations = own.submodule_search_locations
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system to make one, which is then replaced."""
        del spec

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the other name in its place."""
        sys.modules[module.__name__] = importlib.import_module(module.__name__.removeprefix(PACKAGE))


def alias(root: Path) -> None:
    """Let the suites in a folder be found under the name that they have once installed."""
    # First of all: the ordinary finder would load `suites.X` a second time through the path of its package.
    sys.meta_path.insert(0, Beside(root))
