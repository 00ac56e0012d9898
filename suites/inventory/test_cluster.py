"""What the cluster says it has is what the profile declares, and hangs together."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.inventory import (
    gpu_count,
    job_defaults,
    node_pool,
    pinned_images,
    rdma_count,
    scheduler_config,
    security_floors,
    topology_labels,
    training_queue,
    versions,
)

from ..scenarios import pinned_images as pods_of_images
from ..scenarios.inventory import inventory


@requirement(
    "INV-002",
    level="must",
    documents="J P",
    scenario=inventory,
    judge=gpu_count.gpus_as_declared,
    presupposes=[gpu_count.nodes_listed, gpu_count.gpu_nodes_report],
)
def test_every_gpu_node_offers_the_declared_number_of_gpus(settle: Callable[[], None]) -> None:
    """Every GPU node offers the declared number of GPUs.

    Every node that has GPUs MUST offer exactly the declared number of the declared GPU resource, all of them healthy
    (allocatable, not only capacity). A node has GPUs if it offers them under any name, or if its labels say so.
    """
    settle()


@requirement(
    "INV-003",
    level="must",
    documents="R",
    scenario=inventory,
    judge=rdma_count.rdma_as_declared,
    presupposes=[gpu_count.nodes_listed, gpu_count.gpu_nodes_report],
)
def test_every_gpu_node_offers_the_declared_number_of_rdma_devices(settle: Callable[[], None]) -> None:
    """Every GPU node offers the declared number of RDMA devices.

    Every GPU node MUST offer exactly the declared number of the declared RDMA resource; too many is wrong too. A
    declared NetworkAttachmentDefinition MUST be there and, if it names a resource, name this one.
    """
    settle()


@requirement(
    "INV-004",
    level="should",
    documents="E",
    scenario=inventory,
    judge=topology_labels.labels_carried,
    presupposes=[gpu_count.nodes_listed],
)
def test_every_gpu_node_tells_its_place_in_the_network(settle: Callable[[], None]) -> None:
    """Every GPU node tells its place in the network.

    Every GPU node SHOULD carry the declared labels of all levels, each with a value, for as long as it is watched. The
    finding says how many domains each level has. It does not know whether a node stands where its labels say.
    """
    settle()


@requirement(
    "INV-005",
    level="must",
    documents="J P",
    scenario=inventory,
    judge=training_queue.queue_fits,
    presupposes=[gpu_count.nodes_listed, training_queue.nodes_in_service],
)
def test_the_training_queue_is_open_and_its_quota_fits(settle: Callable[[], None]) -> None:
    """The training queue is open and its quota fits the cluster.

    The queue that the profile names MUST exist and be Open (Volcano) or Active (Kueue). Its quota of each resource
    MUST NOT be larger than what all nodes together have allocatable.
    """
    settle()


@requirement(
    "INV-006",
    level="should",
    documents="P",
    scenario=inventory,
    judge=versions.versions_supported,
    presupposes=[versions.deployments_readable],
)
def test_component_versions_are_recorded_and_supported(settle: Callable[[], None]) -> None:
    """Component versions are recorded and supported.

    The versions of Kubernetes, of the GPU driver and of the components in the profile's support matrix are recorded,
    and each SHOULD be in that matrix. An unknown version is not in the matrix.
    """
    settle()


@requirement(
    "INV-007",
    level="must",
    documents="R J",
    scenario=pods_of_images.pinned_images,
    judge=pinned_images.pinned_by_digest,
    presupposes=[pinned_images.from_a_registry],
)
def test_training_images_are_pinned_by_digest(settle: Callable[[], None]) -> None:
    """Training images are pinned by digest.

    Each container of a pod that the suite makes of the profile's images MUST name its image by digest, once the cluster
    has admitted the pod: regular containers, init containers, and what a webhook puts beside them.
    """
    settle()


@requirement(
    "INV-008",
    level="must",
    documents="+",
    scenario=inventory,
    judge=node_pool.nodes_alike,
    presupposes=[gpu_count.nodes_listed, node_pool.siblings],
)
def test_the_nodes_of_one_pool_are_alike(settle: Callable[[], None]) -> None:
    """Nodes of one pool are alike.

    GPU nodes of one pool MUST agree in number and kind of their devices, in kernel, driver, container runtime and
    kubelet, and in the labels that describe the machine. Nothing needs to be declared: the nodes are compared with
    each other.
    """
    settle()


@requirement(
    "INV-009",
    level="should",
    documents="R J",
    schedulers=["volcano"],
    scenario=inventory,
    judge=scheduler_config.configured,
    presupposes=[scheduler_config.readable],
)
def test_the_scheduler_is_configured_for_gangs(settle: Callable[[], None]) -> None:
    """The scheduler's configuration has what the selected rows need.

    The scheduler's configuration SHOULD be readable, hold back gangs with the gang plugin and have the actions
    enqueue and allocate. What cannot be read is unknown and never assumed.
    """
    settle()


@requirement(
    "INV-010",
    level="must",
    documents="J",
    schedulers=["volcano"],
    scenario=inventory,
    judge=job_defaults.documented_defaults,
    presupposes=[job_defaults.dry_run_allowed],
)
def test_omitted_job_fields_get_the_documented_defaults(settle: Callable[[], None]) -> None:
    """Omitted Job fields get the documented defaults.

    A Job that leaves these fields out MUST come back with schedulerName volcano, queue default, maxRetry 3 and tasks
    named default0, default1 and so on. For each field, the finding says whether the schema or the admission filled it
    in.
    """
    settle()


@requirement(
    "INV-011",
    level="should",
    documents="+",
    scenario=inventory,
    judge=security_floors.not_below_floors,
    presupposes=[gpu_count.nodes_listed],
)
def test_no_component_is_below_its_security_floor(settle: Callable[[], None]) -> None:
    """No driver, toolkit, runc or adapter firmware is below its security floor.

    The driver of every GPU node SHOULD be known. It, and the container toolkit, runc and adapter firmware as far as the
    cluster tells their versions, SHOULD NOT be below the floors of a dated list, which names the advisory of each. The
    finding says how old the list is; the profile may name a newer one.
    """
    settle()
