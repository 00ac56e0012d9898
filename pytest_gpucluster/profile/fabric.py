"""What is declared of the traffic between ranks."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from pytest_gpucluster.measure.transports import Name as Transport
from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen, Seconds, Text

Count = Annotated[int, Field(strict=True, ge=1)]
Rate = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)]
Variable = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "sendrecv"]


class Floor(Frozen):
    """The least bus bandwidth of a collective; a part of its shape that is left out is that of the section."""

    collective: Collective = Field(description="The collective")
    size: Count = Field(description="Least size in bytes for which the floor holds, as nccl-tests counts it")
    busbw: Rate = Field(description="Least bus bandwidth in GB/s (1e9 bytes)")
    nodes: Count | None = Field(
        default=None, description="Number of nodes of the run from which the floor comes"
    )
    gpus: Count | None = Field(default=None, description="Number of GPUs of each of these nodes")
    nics: Count | None = Field(default=None, description="Number of adapters per node; none: nics_per_node")
    nic_gbps: Rate | None = Field(
        default=None, description="Line rate of one adapter in Gbit/s; none: nic_gbps of the section"
    )
    link_gbs: Rate | None = Field(
        default=None,
        description="What a GPU sends to the others of its node in GB/s; none: link_gbs of the section",
    )
    device: Text | None = Field(default=None, description="A part of the GPU's name, such as H100")
    transport: Transport | None = Field(
        default=None, description="Transport between nodes; none: transport of the section"
    )
    origin: Text = Field(
        description="Where the floor comes from: a report, a document, or who measured it and when"
    )


class Fabric(Frozen):
    """What carries collectives, and how fast it must be; an empty mapping lets them run and declares nothing."""

    device: Literal["gpu", "cpu"] = Field(
        default="gpu",
        description="What ranks compute on; cpu if the cluster has no real GPUs: gloo, small sizes",
    )
    nodes: Count | None = Field(
        default=None,
        description="Number of nodes that take part; none: all nodes that offer the GPUs at the start of the run",
    )
    pods_per_node: Count = Field(
        default=1,
        description="Number of pods that share the GPUs of a node; more than one only if one pod cannot have them all",
    )
    transport: Transport | None = Field(
        default=None,
        description="What carries traffic between nodes, with the name in NCCL's connection lines",
    )
    network: Annotated[str, shapes.NO_SPACE] | None = Field(
        default=None,
        description="Name of the network as NCCL prints it, if a plugin uses another name (such as IBext_v8)",
    )
    hcas: tuple[Annotated[str, shapes.ADAPTER], ...] = Field(
        default=(), description="Adapters that carry the traffic, such as mlx5_0; none: not judged"
    )
    gdr: Literal["required", "not-required"] | None = Field(
        default=None,
        description="Whether adapters must read and write GPU memory themselves (GPUDirect RDMA)",
    )
    intra_node: Literal["P2P", "NVLS", "SHM", "NET"] | None = Field(
        default=None, description="What carries traffic between ranks of one node"
    )
    nics_per_node: Count | None = Field(
        default=None, description="Number of adapters per node that carry the traffic"
    )
    nic_gbps: Rate | None = Field(default=None, description="Line rate of one adapter in Gbit/s")
    link_gbs: Rate | None = Field(
        default=None,
        description="What one GPU sends to the others of its node in GB/s, one direction: 450 for NVLink of H100",
    )
    settings: Mapping[Variable, Text] = Field(
        default={}, description="NCCL variables that must be in force on every rank, with their values"
    )
    env: Mapping[Variable, str] = Field(
        default={}, description="Variables that the suite sets in the pods of these rows"
    )
    floors: tuple[Floor, ...] = Field(
        default=(), description="Least bus bandwidths that this cluster must reach"
    )
    floor_file: Literal["bus_bandwidth"] | None = Field(
        default=None, description="Shipped list of floors to use in addition: bus_bandwidth"
    )
    slow_share: Share = Field(
        default=0.7, description="A link or a node is slow if it is below this share of the median"
    )
    dip_share: Share = Field(
        default=0.8,
        description="The bus bandwidth of a size dips if it is below this share of that of a smaller size",
    )
    seconds: Seconds = Field(default=30.0, description="Time for the measurements, in seconds")
    stall_bound: Seconds = Field(
        default=60.0, description="Longest time that a collective may stall, in seconds"
    )
