"""What is declared of the traffic between ranks."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen, Seconds, Text

Count = Annotated[int, Field(strict=True, ge=1)]
Rate = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)]
Variable = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Transport = Literal[
    "NET/IB", "NET/OFI", "NET/UCX", "NET/gIB", "NET/FasTrak", "NET/TCPX", "NET/SHARP", "NET/Socket", "MNNVL"
]  # fmt: skip
Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "sendrecv"]


class Floor(Frozen):
    """The least bus bandwidth of a collective; what is left out of its shape is that of the section."""

    collective: Collective = Field(description="The collective")
    size: Count = Field(description="Bytes from which on it holds, as nccl-tests counts them")
    busbw: Rate = Field(description="Least bus bandwidth in GB/s (1e9 bytes)")
    nodes: Count | None = Field(default=None, description="Nodes of the run that it comes from")
    gpus: Count | None = Field(default=None, description="GPUs of each of these nodes")
    nics: Count | None = Field(default=None, description="Adapters of a node; none: nics_per_node")
    nic_gbps: Rate | None = Field(default=None, description="Line rate of one in Gbit/s; none: nic_gbps")
    link_gbs: Rate | None = Field(
        default=None, description="What a GPU sends to the others of its node in GB/s; none: link_gbs"
    )
    device: Text | None = Field(default=None, description="What the GPU's name has in it, such as H100")
    transport: Transport | None = Field(default=None, description="Between nodes; none: transport")
    origin: Text = Field(description="Where it comes from: a report, a document, who measured it when")


class Fabric(Frozen):
    """What carries collectives, and how fast; an empty mapping lets them run and declares nothing."""

    device: Literal["gpu", "cpu"] = Field(
        default="gpu",
        description="What ranks compute on; cpu where GPUs are only pretended: gloo, small sizes",
    )
    nodes: Count | None = Field(
        default=None, description="Nodes that take part; none: all that offer the GPUs when the run begins"
    )
    pods_per_node: Count = Field(
        default=1, description="Pods that share the GPUs of a node; one, unless a pod may not have them all"
    )
    transport: Transport | None = Field(
        default=None, description="What carries traffic between nodes, as connection lines of NCCL call it"
    )
    network: Annotated[str, shapes.NO_SPACE] | None = Field(
        default=None,
        description="Name of the network as NCCL prints it, where a plugin calls it otherwise (such as IBext_v8)",
    )
    hcas: tuple[Annotated[str, shapes.ADAPTER], ...] = Field(
        default=(), description="Adapters that carry it, such as mlx5_0; none: not judged"
    )
    gdr: Literal["required", "not-required"] | None = Field(
        default=None,
        description="Whether adapters must read and write GPU memory themselves (GPUDirect RDMA)",
    )
    intra_node: Literal["P2P", "NVLS", "SHM", "NET"] | None = Field(
        default=None, description="What carries traffic between ranks of one node"
    )
    nics_per_node: Count | None = Field(default=None, description="Adapters of a node that carry the traffic")
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
    floors: tuple[Floor, ...] = Field(default=(), description="Least bus bandwidths of this cluster")
    floor_file: Literal["bus_bandwidth"] | None = Field(
        default=None, description="Shipped list of floors that is used beside these: bus_bandwidth"
    )
    slow_share: Share = Field(
        default=0.7, description="A link, or a node, is slow below this part of the median of all"
    )
    seconds: Seconds = Field(default=30.0, description="Time for what is measured, in seconds")
    stall_bound: Seconds = Field(
        default=60.0, description="Longest time that a collective may stand still, in seconds"
    )
