"""Planted departures of the profile: what is declared of a cluster is wrong, whatever the cluster does."""

from collections.abc import Collection
from typing import Any, Final

from pytest_gpucluster.plain.planted import IMAGE_WITHOUT_CLIENT
from pytest_gpucluster.profile.fabric import Floor
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
    changed: dict[str, Any] = {}
    if FLOOR_IN_GBITS in defects and profile.fabric is not None:
        changed["fabric"] = profile.fabric.model_copy(update={"floors": (*profile.fabric.floors, _FLOOR)})
    if IMAGE_WITHOUT_CLIENT in defects and profile.elastic is not None:
        changed["elastic"] = profile.elastic.model_copy(update={"backend": "etcd-v2"})
    return profile.model_copy(update=changed) if changed else profile
