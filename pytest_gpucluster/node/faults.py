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
    ROW_REMAP_PENDING,
    THROTTLED,
)
from pytest_gpucluster.plain.planted import IMAGE_WITHOUT_CLIENT

FOLDER = Path(__file__).with_name("faulty")
"""Holds the `sitecustomize` that Python imports before any program, where this folder is on its path."""
VARIABLE = "GPUCLUSTER_PLANTED"
LIBRARIES = Path(__file__).with_name("played")
"""Holds the libraries of the driver of GPUs that are played."""
OF_GPUS = "GPUCLUSTER_PLAYED"
"""Tells them what is wrong with these GPUs."""
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


def variables(
    defects: Collection[str], path: str = "", *, gpus: bool = False, last: bool = False
) -> dict[str, str]:
    """Return what a container's environment must have for the planted faults, and for played GPUs.

    Args:
        defects: Planted defects.
        path: PYTHONPATH of the image. It stays in front: the `sitecustomize` of `node.images` imports the next one.
        gpus: Whether the container was given GPUs that are played: they have a played library of their driver.
        last: Whether it runs on the last node, which faults of one node's GPUs hit.
    """
    planted = [name for name in PLAYED if name in defects]
    folders = [str(FOLDER)] if planted else []
    found = {VARIABLE: ",".join(planted)} if planted else {}
    if gpus:
        folders.append(str(LIBRARIES))
        if last and ROW_REMAP_PENDING in defects:
            found[OF_GPUS] = "row-remap-pending"
    if folders:
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (path, *folders)))
    return found
