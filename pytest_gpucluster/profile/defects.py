"""Planted departures of the profile: what is declared of a cluster is wrong, whatever the cluster does."""

from collections.abc import Collection
from typing import Final

from pytest_gpucluster.profile.fabric import Fabric, Floor
from pytest_gpucluster.profile.model import Profile

FLOOR_IN_GBITS: Final = "profile.floor-in-gbits"

DEFECTS: Final[dict[str, str]] = {
    FLOOR_IN_GBITS: "a bandwidth floor is written in Gbit/s instead of GB/s",
}

AT_START: Final[frozenset[str]] = frozenset()

_FLOOR: Final = Floor(
    collective="all_reduce",
    size=1 << 30,
    # 350 GB/s of 8 adapters of 400 Gbit/s, which carry 400 GB/s.
    busbw=8 * 350.0,
    nodes=2,
    gpus=8,
    nics=8,
    nic_gbps=400.0,
    origin=FLOOR_IN_GBITS,
)


def declared(profile: Profile, defects: Collection[str]) -> Profile:
    """Return what is declared of a cluster, planted departures included."""
    if FLOOR_IN_GBITS not in defects or profile.fabric is None:
        return profile
    fabric: Fabric = profile.fabric.model_copy(update={"floors": (*profile.fabric.floors, _FLOOR)})
    return profile.model_copy(update={"fabric": fabric})
