"""Manifests and payloads made ready, and how a gang is written for a scheduler.

```python
from pytest_gpucluster.workload import GangSpec, Role, dialect_for

spec = GangSpec("smoke", roles=(Role("worker", 4, ("sleep", "5")),), resources={"nvidia.com/gpu": 4})
manifest = dialect_for("volcano", queue="default").write(spec)
```
"""

from pytest_gpucluster.workload.dialect import DIALECTS, WORKLOADS, dialect_for, has_ended, members_of
from pytest_gpucluster.workload.overlay import apply_overlay, pod_templates
from pytest_gpucluster.workload.payload import config_map, payload_files
from pytest_gpucluster.workload.pods import filler, lone_pod, single_pod
from pytest_gpucluster.workload.protocol import Dialect
from pytest_gpucluster.workload.spec import GangSpec, Role, Sidecar, Volume, WorkloadError

__all__ = [
    "DIALECTS",
    "WORKLOADS",
    "Dialect",
    "GangSpec",
    "Role",
    "Sidecar",
    "Volume",
    "WorkloadError",
    "apply_overlay",
    "config_map",
    "dialect_for",
    "filler",
    "has_ended",
    "lone_pod",
    "members_of",
    "payload_files",
    "pod_templates",
    "single_pod",
]
