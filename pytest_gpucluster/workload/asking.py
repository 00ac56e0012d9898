"""How an object that is not a scheduler's own asks that scheduler for a gang."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.workload.spec import GangSpec, Manifest, WorkloadError


@dataclasses.dataclass(frozen=True)
class Asking:
    """What an object of another API carries, so that its pods are one gang.

    Attributes:
        labels: of the object.
        annotations: of each pod.
        pod: fields of each pod's spec.
        group: PodGroup that we make before the object, None where the scheduler needs none.
    """

    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pod: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    group: Manifest | None = None


def whole_only(spec: GangSpec, who: str) -> None:
    """Check that a gang starts with all its members.

    Raises:
        WorkloadError: it has a minimum below that.
    """
    if spec.minimum != spec.members:
        raise WorkloadError(f"gang {spec.name!r}: {who} knows no minimum below all members")
