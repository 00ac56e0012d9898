"""Whether any node offers the declared GPU resource: asked once, before the first row."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_gpucluster.hooks.run import Run

EXISTING = "existing"
"""Provider of clusters whose nodes are not made for the run."""


def check(run: "Run") -> str:
    """Return why it could not be checked, in one line; "" where a node offers the resource, or the run makes its nodes.

    Any name is good that a node offers: renamed, shared, a MIG profile, another vendor's.

    Raises:
        pytest.UsageError: no node offers it; says what the nodes offer.
    """
    profile = run.loaded.profile
    told = run.settings
    if profile.provider != EXISTING or told.plan or told.reuse is not None or profile.gpus_per_node == 0:
        return ""
    from pytest_gpucluster.kube import connection, errors, objects, retry
    from pytest_gpucluster.scenario import gpu_nodes

    declared = profile.connection
    if declared is None:
        return ""
    # Rows have more patience; here nobody knows yet whether the cluster answers at all.
    limits = retry.Limits(read=5.0, attempts=2, total=10.0)
    try:
        opened = connection.Connection.open(declared.kubeconfig, declared.context, limits=limits)
        nodes = objects.Objects(opened).list(objects.NODE)
    except errors.GpuClusterError as error:
        text = " ".join(str(error).split())
        return (
            f"the nodes could not be read, so whether one offers {profile.gpu_resource} is not known: {text}"
        )
    offered = gpu_nodes.named(nodes)
    if profile.gpu_resource in offered:
        return ""
    where = run.loaded.sources.get("gpu_resource") or str(run.loaded.file or profile.name)
    said = _said(profile.gpu_resource, offered, len(nodes))
    raise pytest.UsageError(f"{where}: gpu_resource = {profile.gpu_resource!r}: no node offers it{said}")


def _said(name: str, offered: Mapping[str, int], nodes: int) -> str:
    from pytest_gpucluster.plain import names

    count = f"{nodes} node{'' if nodes == 1 else 's'}"
    if not offered:
        return f" (the cluster has {count}, and none offers any device: does the device plugin run?)"
    near = names.nearest(name, offered)
    hint = f"; did you mean {near!r}?" if near else ""
    listed = ", ".join(f"{each} on {on}" for each, on in sorted(offered.items()))
    return f"{hint} (of {count}, offered: {listed})"
