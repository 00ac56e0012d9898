"""The profile as a frozen model; every leaf has its meaning and unit here."""

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from pytest_gpucluster.plain import components, schedulers, versions, workload_kinds
from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen, Seconds, SecondsOrNone, Text
from pytest_gpucluster.profile.claims import Claim
from pytest_gpucluster.profile.elastic import Elastic
from pytest_gpucluster.profile.fabric import Fabric
from pytest_gpucluster.profile.health import Health
from pytest_gpucluster.profile.host import Host
from pytest_gpucluster.profile.kueue import Kueue
from pytest_gpucluster.profile.metrics import Metrics
from pytest_gpucluster.profile.mfu import Mfu
from pytest_gpucluster.profile.numa import Numa
from pytest_gpucluster.profile.rdma import Rdma
from pytest_gpucluster.profile.secondary import Secondary
from pytest_gpucluster.profile.security import Security
from pytest_gpucluster.profile.storage import Storage
from pytest_gpucluster.profile.topology import Topology
from pytest_gpucluster.profile.workload import Workload

BUDGETS = ("admission", "enqueue", "bind", "start", "run", "finish", "delete", "torch", "lease")
"""Names of the waits. admission: the API server's answer; enqueue: pods of a gang are made; bind: members have
a node; start: containers run; run: a payload comes to its end; finish: a Job's phase follows; delete: an object is
gone; torch: a payload that imports torch and forms a world; lease: another run gives the cluster free."""

REAL_WINDOW = 5.0
"""Shortest window on a real cluster, in seconds."""

IMAGES = ("python", "torch", "etcd", "mpi")
"""Roles of payload images; `etcd` is needed where `elastic.backend` is etcd-v2 and runs make their own, `mpi` (sshd,
ssh, mpiexec, Python and mpi4py) where jobs over MPI are run."""

ADDONS = ("kueue", "volcano")
"""Add-ons that the provider kind installs."""

OVERLAY = ("metadata", "spec")
"""Parts of a pod that an overlay may have."""


def _range(text: str) -> str:
    try:
        return versions.check_range(text)
    except versions.RangeError:
        raise PydanticCustomError(
            "version_range", "must be a range of versions such as 1.14, or >=1.33 <1.38"
        ) from None


BudgetName = Annotated[str, Field(strict=True, pattern=f"^({'|'.join(BUDGETS)})$")]
ImageName = Annotated[str, Field(strict=True, pattern=f"^({'|'.join(IMAGES)})$")]
AddonName = Annotated[str, Field(strict=True, pattern=f"^({'|'.join(ADDONS)})$")]
OverlayPart = Annotated[str, Field(strict=True, pattern=f"^({'|'.join(OVERLAY)})$")]
ComponentName = Annotated[str, Field(strict=True, pattern=f"^({'|'.join(components.NAMES)})$")]
InstalledName = Annotated[str, Field(strict=True, pattern=f"^({'|'.join(components.NAMESPACES)})$")]
ProviderName = Literal["embedded", "existing", "kind", "host"]
NodesName = Literal["process", "simulated", "real"]

Namespace = Annotated[str, shapes.NAMESPACE]
Range = Annotated[str, Field(strict=True, min_length=1), AfterValidator(_range)]
SchedulerName = Literal["volcano", "native", "kueue", "default-scheduler"]
FurtherScheduler = Literal["volcano", "native"]


class Connection(Frozen):
    """How to reach the cluster."""

    kubeconfig: Text = Field(
        description="Path of the kubeconfig file; `~` is expanded; a relative path starts at the profile's folder"
    )
    context: Text = Field(description="Name of the context in that file")


class Mount(Frozen):
    """A folder or file of the host that the nodes of a kind cluster see, read-only."""

    host: Text = Field(description="Path on the host of the container engine")
    node: Annotated[str, shapes.PATH] = Field(description="Path in the nodes")


class Kind(Frozen):
    """How to create a kind cluster; only for the provider kind."""

    image: Text | None = Field(
        default=None, description="Node image, best pinned by digest; none: the default of the kind program"
    )
    name: Annotated[str, shapes.KIND_CLUSTER] | None = Field(
        default=None,
        description="Name of a cluster that stays: a run creates it if it is missing, else uses it again; none: each "
        "run creates its own cluster and removes it",
    )
    payload: Text | None = Field(
        default=None,
        description="Image in which payloads run, or an archive of it; none: built from the shipped Dockerfile",
    )
    config: Text | None = Field(
        default=None, description="File with a kind cluster configuration that replaces the shipped one"
    )
    mounts: tuple[Mount, ...] = Field(
        default=(), description="Paths of the host that all nodes see, read-only"
    )


class Addon(Frozen):
    """What to install into a kind cluster before the run."""

    source: Text = Field(
        description="File or https URL of manifests, or a folder of manifests (*.yaml) and image archives (*.tar)"
    )
    sha256: Annotated[str, shapes.SHA256] | None = Field(
        default=None,
        description="SHA-256 of the file; for a folder, SHA-256 of the lines that `sha256sum` prints for its files, "
        "sorted by name; required for a URL",
    )


class Waiver(Frozen):
    """A requirement that is known not to be met; shown as waived, never green."""

    id: Annotated[str, shapes.REQUIREMENT] = Field(description="Requirement id")
    reason: Text = Field(description="Why it is waived")
    owner: Text = Field(description="Who is responsible")
    expires: dt.date = Field(description="Last day on which the waiver counts, such as 2027-03-31")


class Profile(Frozen):
    """What is declared about one cluster.

    Times are in seconds.
    """

    name: Text = Field(description="Name of the profile: the file's name without its ending")
    provider: ProviderName = Field(description="Where the cluster comes from")
    connection: Connection | None = Field(
        default=None, description="How to reach the cluster; none for embedded, host and kind"
    )
    scheduler: SchedulerName = Field(
        description="What places gangs, and in which form the rows write them: volcano, native (PodGroups of "
        "Kubernetes itself), kueue, or default-scheduler (no gangs)"
    )
    further_schedulers: tuple[FurtherScheduler, ...] = Field(
        description="Other gang schedulers of this cluster, which TRN-003 tries: volcano, native"
    )
    workload: Workload = Field(
        description="As what kind of object gangs are written for the scheduler, and which further kinds the cluster "
        "serves"
    )
    kueue: Kueue | None = Field(
        default=None,
        description="Declares that Kueue is installed, and how it is configured; none: not installed",
    )
    numa: Numa | None = Field(
        default=None, description="Declares that nodes align pods to NUMA nodes, and how; none: not declared"
    )
    fabric: Fabric | None = Field(
        default=None,
        description="What carries collectives, and how fast it must be; none: the rows do not apply",
    )
    rdma: Rdma | None = Field(
        default=None,
        description="RDMA devices that GPU nodes offer to pods, and their networks; none: not declared",
    )
    mfu: Mfu | None = Field(
        default=None, description="How fast GPUs and training must be; none: the rows do not apply"
    )
    storage: Storage | None = Field(
        default=None,
        description="What checkpoints are kept on, and how fast and safe it must be; none: the rows do not apply",
    )
    elastic: Elastic | None = Field(
        default=None,
        description="Declares that training may lose and gain workers, and how; none: the rows do not apply",
    )
    queue: Annotated[str, shapes.OBJECT] = Field(description="Queue into which training is submitted")
    conformance_queue: Annotated[str, shapes.OBJECT] | None = Field(
        default=None,
        description="Declares that `queue` is held: closed until `gpucluster promote` opens it. Runs submit their "
        "gangs to this queue instead; what speaks of `queue` is pending promotion. None: `queue` is open",
    )
    gpu_resource: Annotated[str, shapes.RESOURCE] = Field(
        description="Name of the GPU resource, such as nvidia.com/gpu"
    )
    gpus_per_node: Annotated[int, Field(strict=True, ge=0)] = Field(
        description="Number of GPUs of every GPU node"
    )
    scheduler_period: Seconds = Field(description="Seconds between two rounds of the scheduler")
    window: Seconds = Field(description="Shortest time, in seconds, to watch before a 'never' counts")
    bind_spread: SecondsOrNone | None = Field(
        default=None,
        description="Longest time between the first and the last bind of a gang, in seconds; none: not judged",
    )
    start_spread: SecondsOrNone | None = Field(
        default=None,
        description="Longest time between the starts of a gang's first and last needed members, in seconds; none: "
        "not judged",
    )
    recovery: SecondsOrNone | None = Field(
        default=None,
        description="Longest time after a lost slot is back until its gang is whole again, in seconds; none: not "
        "judged",
    )
    budgets: Mapping[BudgetName, Seconds] = Field(description="Longest waits by name, in seconds")
    slots: Annotated[bool, Field(strict=True)] = Field(
        description="Whether the suite may put private slot resources on nodes to make room scarce"
    )
    nodes: NodesName = Field(
        description="What the nodes are: processes of this host, simulated nodes, or real machines"
    )
    namespace: Namespace | None = Field(
        default=None,
        description="Namespace that you lend to runs, if you grant no more than that; none: each run creates its own",
    )
    lease_namespace: Namespace = Field(
        description="Namespace of the Lease with which runs on the same nodes take turns; must be the same for all "
        "runs"
    )
    overlay: Mapping[OverlayPart, Mapping[str, Any]] = Field(
        description="What is added to every pod, in the form of a pod: metadata.labels, metadata.annotations, "
        "spec.tolerations, spec.nodeSelector, spec.imagePullSecrets ... An entry of spec.containers without a name is "
        "laid onto every container: env, volumeMounts, securityContext ..."
    )
    images: Mapping[ImageName, Annotated[str, shapes.IMAGE]] = Field(
        description="Images of payloads by role, best pinned by digest"
    )
    versions: Mapping[ComponentName, Annotated[tuple[Range, ...], Field(min_length=1)]] = Field(
        description="Support matrix: component -> ranges of versions that were tested together, such as volcano: "
        "['1.14']; other components are recorded, not judged"
    )
    security: Security | None = Field(
        default=None,
        description="Versions below which a published fix is missing, and where nodes tell theirs; none: the shipped "
        "list, and the driver's version must be known",
    )
    namespaces: Mapping[InstalledName, Namespace] = Field(
        description="Namespaces of components that are not in the namespace of their documentation"
    )
    interface: Annotated[str, shapes.INTERFACE] | None = Field(
        default=None,
        description="Network interface for the all-reduce of members without GPUs, as pods name it, such as eth0; "
        "none: measured, not judged",
    )
    health: Health | None = Field(
        default=Health(),
        description="What is read of the GPUs themselves; none, if they are only pretended: the rows do not apply",
    )
    metrics: Metrics | None = Field(
        default=None,
        description="Where the metrics of GPUs are, and how fresh they must be; none: the row does not apply",
    )
    secondary: Secondary | None = Field(
        default=None,
        description="Second interface of pods, or a tunnel, that carries rendezvous and collectives; none: not "
        "declared",
    )
    topology: Topology | None = Field(
        default=None,
        description="Declares by which labels nodes tell their place in the network (block, rack); none: not declared",
    )
    pool_label: Annotated[str, shapes.LABEL_KEY] | None = Field(
        default=None,
        description="Node label that names the pool; none: the label of the cloud provider, or else all GPU nodes "
        "are one pool",
    )
    kind: Kind = Field(description="How the provider kind creates the cluster")
    host: Host = Field(description="How the provider host makes nodes of the machine")
    addons: Mapping[AddonName, Addon] = Field(
        description="What to install into a kind cluster; this also declares it: kueue, volcano"
    )
    waivers: tuple[Waiver, ...] = Field(description="Requirements that you know are not met")
    claims: tuple[Claim, ...] = Field(
        default=(),
        description="What the provider of the cluster claims; shown beside what was measured, never judged",
    )

    @model_validator(mode="after")
    def _window_is_not_shortened(self) -> Self:
        # Rule 1 of the catalogue: on real clusters the longer of 3 periods and 5 s, and never less.
        if self.provider not in {"embedded", "host"} and self.window < REAL_WINDOW:
            raise PydanticCustomError(
                "window_shortened", "must be at least 5: a profile may lengthen the window, never shorten it"
            )
        return self

    @model_validator(mode="after")
    def _further_schedulers_are_others(self) -> Self:
        for number, name in enumerate(self.further_schedulers):
            if name == self.scheduler or name in self.further_schedulers[:number]:
                taken = "`scheduler`" if name == self.scheduler else "an earlier entry"
                raise PydanticCustomError(
                    "same_scheduler", "must name another scheduler than {taken} does", {"taken": taken}
                )
        return self

    @model_validator(mode="after")
    def _workload_kind_is_written_for_the_scheduler(self) -> Self:
        kind = self.workload.kind
        if not workload_kinds.exists(self.scheduler, kind):
            known = ", ".join(workload_kinds.SCHEDULERS[kind])
            raise PydanticCustomError(
                "no_such_combination",
                "cannot be written for `scheduler: {scheduler}` ({kind} is written for: {known})",
                {"scheduler": self.scheduler, "kind": kind, "known": known},
            )
        return self

    @model_validator(mode="after")
    def _conformance_queue_is_another(self) -> Self:
        if self.conformance_queue == self.queue:
            raise PydanticCustomError(
                "same_queue", "must name another queue than `queue`, which is held and takes no Jobs"
            )
        return self

    @model_validator(mode="after")
    def _functions_are_no_gpus(self) -> Self:
        if self.numa is not None and self.numa.functions == self.gpu_resource:
            raise PydanticCustomError(
                "functions_are_gpus", "must be a resource of network functions, but is `gpu_resource`"
            )
        return self

    @model_validator(mode="after")
    def _adapters_are_no_gpus(self) -> Self:
        if self.rdma is not None and self.rdma.resource == self.gpu_resource:
            raise PydanticCustomError(
                "adapters_are_gpus", "must be a resource of RDMA devices, but is `gpu_resource`"
            )
        return self

    @model_validator(mode="after")
    def _kueue_is_declared(self) -> Self:
        if self.kueue is None and self.scheduler == schedulers.KUEUE:
            raise PydanticCustomError(
                "kueue_undeclared", "is missing: jobs behind it need `kueue: {}`, or how it is set up"
            )
        return self

    @property
    def runs_in(self) -> str:
        """Return the queue to which runs submit their gangs."""
        return self.conformance_queue or self.queue

    def window_length(self, periods: float = 3) -> float:
        """Return how long a window of `periods` rounds of the scheduler is watched, in seconds (rule 1).

        A profile lengthens the window, it never shortens it below the rounds asked for.
        """
        return max(self.window, periods * self.scheduler_period)
