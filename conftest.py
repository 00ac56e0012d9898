"""Loads the plugin in a checkout that is not installed; an installed one is loaded by its entry point."""

import importlib.metadata
import os

_AUTOLOADED = not os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD") and any(
    point.value == "pytest_gpucluster.plugin" for point in importlib.metadata.entry_points(group="pytest11")
)

pytest_plugins = [] if _AUTOLOADED else ["pytest_gpucluster.plugin"]
