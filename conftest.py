"""Loads the plugin in a checkout that is not installed; an installed one is loaded by its entry point."""

import importlib.metadata
import os

_AUTOLOADED = not os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD") and any(
    point.value == "pytest_gpucluster.plugin" for point in importlib.metadata.entry_points(group="pytest11")
)

if not _AUTOLOADED:
    # Only then: pytest refuses the name where this file is not at the root of what is run, as with the suites of an
    # editable installation.
    pytest_plugins = ["pytest_gpucluster.plugin"]
