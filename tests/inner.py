"""Options and surroundings of a run of pytest within a test."""

import os

from pytest_gpucluster.node import images

QUIET = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
"""Plugins that it does without: each process of an inner run would import hypothesis, and numpy for its seed, which is
more than it imports otherwise."""

SHUFFLED = ("-p", "randomly")
"""What a run of all rows loads again, behind `QUIET`: the rows come in random order."""

ALONE = (*QUIET, "-p", "no:html", "-p", "no:html_fixtures", "-p", "no:pytest-kubernetes")
"""What a run on a fake cluster does without as well; `tests/plugin/test_coexistence.py` has those that matter."""


def path(*folders: object) -> str:
    """Return the PYTHONPATH of a process that has these modules and no others, and begins as soon as other processes.

    Args:
        folders: Where its modules come from.
    """
    sooner = str(images.STARTUP)
    begun = sooner in os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([*map(str, folders), *([sooner] if begun else [])])
