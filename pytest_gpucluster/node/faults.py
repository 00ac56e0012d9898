"""Faults of the hardware, and of the image, under a container's ranks, played where its interpreter starts.

No payload knows of them.
"""

import os
from collections.abc import Collection
from pathlib import Path

from pytest_gpucluster.node.defects import (
    ASYNC_WAITS,
    CORRUPTS_COLLECTIVES,
    CORRUPTS_PRODUCTS,
    GATHERS,
    MARKS_FIRST,
    THROTTLED,
)
from pytest_gpucluster.plain.planted import IMAGE_WITHOUT_CLIENT

FOLDER = Path(__file__).with_name("faulty")
"""Holds the `sitecustomize` that Python imports before any program, where this folder is on its path."""
VARIABLE = "GPUCLUSTER_PLANTED"
PLAYED = (
    CORRUPTS_COLLECTIVES,
    CORRUPTS_PRODUCTS,
    THROTTLED,
    GATHERS,
    ASYNC_WAITS,
    MARKS_FIRST,
    IMAGE_WITHOUT_CLIENT,
)
"""Defects that it can play."""


def variables(defects: Collection[str], path: str = "") -> dict[str, str]:
    """Return what a container's environment must have for the planted faults; nothing where none is planted.

    Args:
        defects: Planted defects.
        path: PYTHONPATH of the image. It stays in front: the `sitecustomize` of `node.images` imports the next one.
    """
    planted = [name for name in PLAYED if name in defects]
    folders = os.pathsep.join(filter(None, (path, str(FOLDER))))
    return {VARIABLE: ",".join(planted), "PYTHONPATH": folders} if planted else {}
