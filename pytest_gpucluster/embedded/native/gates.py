"""The feature gates that switch native gangs on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

GENERIC_WORKLOAD: Final = "GenericWorkload"
"""PodGroup and Workload are served, and the scheduler knows groups; off by default in Kubernetes 1.37."""
WORKLOAD_WITH_JOB: Final = "WorkloadWithJob"
"""The Job controller makes a Workload and a PodGroup for each Job; off by default, needs the other."""

TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
"""PodGroups may ask for one domain of a level of the network; off by default, alpha, needs the first."""

KNOWN: Final = frozenset({GENERIC_WORKLOAD, WORKLOAD_WITH_JOB, TOPOLOGY})


@dataclass(frozen=True)
class Gates:
    """Which gates are on.

    Attributes:
        groups: GenericWorkload.
        with_jobs: WorkloadWithJob.
        topology: TopologyAwareWorkloadScheduling.
    """

    groups: bool = False
    with_jobs: bool = False
    topology: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Gates":
        """Read the gates of a configuration (`feature_gates`), and its defects.

        Raises:
            ValueError: when a gate is unknown or not true or false; the text is one line for the operator.
        """
        stated = config.get("feature_gates") or {}
        if not isinstance(stated, dict) or not all(isinstance(value, bool) for value in stated.values()):
            raise ValueError("feature_gates must be an object of gates that are true or false")
        unknown = sorted(set(stated) - KNOWN)
        if unknown:
            listed = ", ".join(sorted(KNOWN))
            raise ValueError(f"unknown feature gates: {', '.join(unknown)} (there are: {listed})")
        if "native.gate-off" in (config.get("defects") or ()):
            return cls()
        groups = bool(stated.get(GENERIC_WORKLOAD))
        with_jobs = bool(stated.get(WORKLOAD_WITH_JOB))
        topology = bool(stated.get(TOPOLOGY))
        for gate, on in ((WORKLOAD_WITH_JOB, with_jobs), (TOPOLOGY, topology)):
            if on and not groups:
                raise ValueError(f"feature gate {gate} needs {GENERIC_WORKLOAD}")
        return cls(groups, with_jobs, topology)
