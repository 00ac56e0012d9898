"""The provider `host`: what was found is made into nodes of the embedded cluster."""

import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pytest_gpucluster.profile import LoadedProfile
from pytest_gpucluster.provider import processes
from pytest_gpucluster.provider.embedded import EmbeddedProvider, Nodes
from pytest_gpucluster.provider.embedded_config import image_table
from pytest_gpucluster.provider.host import discover, plan
from pytest_gpucluster.provider.host.inventory import Inventory
from pytest_gpucluster.provider.protocol import ONE_MACHINE, EndsWithRun, Started

FOUND = "found on this host"
"""Source of a leaf of the profile that only the machine could tell."""


class HostProvider(EndsWithRun):
    """Looks at the machine, then starts the embedded cluster on it."""

    def __init__(self, look: Callable[[], Inventory] | None = None) -> None:
        """Take how the machine is looked at."""
        self._look = look or discover.this_machine

    def verify(self, loaded: LoadedProfile) -> None:
        """Check that there are GPUs and that nodes can be made of them as the profile says.

        Raises:
            ProviderError: they cannot; one line.
        """
        plan.node_entries(loaded, self._look())

    def completed(self, loaded: LoadedProfile) -> LoadedProfile:
        """Return a profile with what only the machine could tell: name and number of its GPUs, their NUMA nodes.

        Raises:
            ProviderError: no GPU, or they cannot be divided as the profile says.
        """
        return completed(loaded, self._look())

    def start(
        self, loaded: LoadedProfile, run_folder: Path, *, defects: Sequence[str], owner_pid: int
    ) -> tuple[Started, Sequence[processes.Pipe]]:
        """Start the cluster, with nodes that hand out the machine's devices.

        Raises:
            ProviderError: no GPU, a process does not start, or the nodes do not become Ready.
        """
        inventory = self._look()
        given = plan.environment(loaded.profile.host.environment, os.environ)
        program = Path(sys.executable)
        image: dict[str, Any] = {"entrypoint": [str(program)], "path": [str(program.parent)], "env": given}
        nodes = Nodes(
            tuple(plan.node_entries(loaded, inventory)),
            dict.fromkeys(image_table(loaded).values(), image),
            frozenset({ONE_MACHINE}),
        )
        facts = {"host": {**inventory.as_dict(), "environment": sorted(given)}}
        source = EmbeddedProvider(made=nodes, facts=facts)
        return source.start(loaded, run_folder, defects=defects, owner_pid=owner_pid)


def completed(loaded: LoadedProfile, found: Inventory) -> LoadedProfile:
    """Return a profile with what only the machine could tell, wherever nobody declared it.

    Raises:
        ProviderError: no GPU, or they cannot be divided as the profile says.
    """
    profile = loaded.profile
    parts = plan.shares(found, profile.host.nodes, profile.host.gpus)
    told: dict[str, Any] = {
        "gpu_resource": found.vendor.resource,
        "gpus_per_node": max(len(part.gpus) for part in parts),
    }
    ours = {key: value for key, value in told.items() if _open(loaded, key)}
    sources = {**loaded.sources, **dict.fromkeys(ours, FOUND)}
    if profile.numa is not None:
        spread = max(len({gpu.numa for gpu in part.gpus if gpu.numa is not None}) for part in parts)
        aligned = {"nodes": max(1, spread), "functions": plan.RDMA if found.hcas else None}
        aligned = {key: value for key, value in aligned.items() if _open(loaded, f"numa.{key}")}
        ours["numa"] = profile.numa.model_copy(update=aligned)
        sources |= {f"numa.{key}": FOUND for key in aligned}
    return dataclasses.replace(loaded, profile=profile.model_copy(update=ours), sources=sources)


def _open(loaded: LoadedProfile, leaf: str) -> bool:
    """Report whether nobody but the built-in profile says something about a leaf."""
    return loaded.sources.get(leaf, "profile host") == "profile host"
