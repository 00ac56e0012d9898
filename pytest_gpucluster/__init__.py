"""A conformance suite for GPU training clusters: every pass is a decision on recorded evidence.

Public names are imported when first used, so that importing the package costs next to nothing. Only the decorator
`requirement` is bound at once: it shares its name with the subpackage, which would otherwise take its place.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.requirement import requirement

if TYPE_CHECKING:
    from pytest_gpucluster.evidence import Evidence
    from pytest_gpucluster.profile import Profile
    from pytest_gpucluster.provider import Cluster
    from pytest_gpucluster.requirement import (
        Cause,
        Finding,
        Level,
        Number,
        Presupposed,
        Refusal,
        Requirement,
        Verdict,
    )
    from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
    from pytest_gpucluster.workload import GangSpec, Role, Sidecar

__version__ = "0.1.0"

if not Path(__file__).with_name("suites").is_dir():
    from pytest_gpucluster.plain import checkout

    checkout.alias(Path(__file__).resolve().parent.parent)

_HOMES = {
    "evidence": ("Evidence",),
    "profile": ("Profile",),
    "provider": ("Cluster",),
    "requirement": (
        "Cause", "Finding", "Level", "Number", "Presupposed", "Refusal", "Requirement", "Verdict",
    ),
    "scenario": ("Handle", "Live", "Needs", "Scenario", "Stage"),
    "workload": ("GangSpec", "Role", "Sidecar"),
}  # fmt: skip

__all__ = [
    "Cause",
    "Cluster",
    "Evidence",
    "Finding",
    "GangSpec",
    "Handle",
    "Level",
    "Live",
    "Needs",
    "Number",
    "Presupposed",
    "Profile",
    "Refusal",
    "Requirement",
    "Role",
    "Scenario",
    "Sidecar",
    "Stage",
    "Verdict",
    "__version__",
    "requirement",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its home (PEP 562)."""
    for home, known in _HOMES.items():
        if name in known:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted(__all__)
