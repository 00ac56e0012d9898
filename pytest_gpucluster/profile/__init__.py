"""What an operator declares about a cluster: model, layered load with provenance, errors, JSON Schema."""

from pytest_gpucluster.profile.claims import Claim
from pytest_gpucluster.profile.elastic import Elastic
from pytest_gpucluster.profile.errors import ProfileError
from pytest_gpucluster.profile.fabric import Fabric, Floor
from pytest_gpucluster.profile.health import Health
from pytest_gpucluster.profile.kueue import Kueue
from pytest_gpucluster.profile.load import BUILT_IN, LoadedProfile, find, known_names, load
from pytest_gpucluster.profile.metrics import Metrics
from pytest_gpucluster.profile.mfu import Mfu, ProductFloor, Training
from pytest_gpucluster.profile.model import BUDGETS, Connection, Profile, Waiver
from pytest_gpucluster.profile.numa import Numa
from pytest_gpucluster.profile.rdma import Rdma
from pytest_gpucluster.profile.secondary import Secondary
from pytest_gpucluster.profile.security import Security, SecurityFloor
from pytest_gpucluster.profile.storage import Storage, Volume
from pytest_gpucluster.profile.topology import Topology
from pytest_gpucluster.profile.workload import Workload

__all__ = [
    "BUDGETS",
    "BUILT_IN",
    "Claim",
    "Connection",
    "Elastic",
    "Fabric",
    "Floor",
    "Health",
    "Kueue",
    "LoadedProfile",
    "Metrics",
    "Mfu",
    "Numa",
    "ProductFloor",
    "Profile",
    "ProfileError",
    "Rdma",
    "Secondary",
    "Security",
    "SecurityFloor",
    "Storage",
    "Topology",
    "Training",
    "Volume",
    "Waiver",
    "Workload",
    "find",
    "known_names",
    "load",
]
