"""What is declared of checkpoints and of what they are kept on."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from pytest_gpucluster.profile import shapes
from pytest_gpucluster.profile.base import Frozen, Seconds, Text
from pytest_gpucluster.profile.mfu import Count, Rate


class Volume(Frozen):
    """Where a volume comes from: a claim that exists, a class of which runs make one, a path, or the pod itself."""

    source: Literal["claim", "storage_class", "host_path", "empty_dir"] = Field(
        description="What it is: claim, a PersistentVolumeClaim in the namespace that you lend (`namespace`); "
        "storage_class, a claim that each run makes and deletes; host_path, a path that every node has, such as the "
        "mount point of a parallel file system; empty_dir, a folder on the node's disk that goes with its pod"
    )
    name: Text | None = Field(
        default=None, description="Name of the claim or of the class, or the path; none for empty_dir"
    )
    size: Annotated[str, shapes.SIZE] = Field(
        default="1Gi", description="Size of the claim that a run makes, such as 200Gi"
    )
    access: Literal["ReadWriteMany", "ReadWriteOnce"] = Field(
        default="ReadWriteMany",
        description="Access mode of that claim; checkpoints of several nodes need the first",
    )

    @model_validator(mode="after")
    def _named_as_its_source_is(self) -> Self:
        if self.source == "empty_dir":
            if self.name is not None:
                raise PydanticCustomError(
                    "volume_name", "must be left out with `source: empty_dir`, which has no name"
                )
            return self
        shape = shapes.PATH if self.source == "host_path" else shapes.OBJECT
        wrong = shape.problem(self.name or "")
        if wrong:
            raise PydanticCustomError(
                "volume_name",
                "with `source: {source}` {wrong}",
                {"wrong": wrong, "source": self.source},
            )
        return self


class Floor(Frozen):
    """The least speed of a node, in GB/s (10^9 bytes per second), while all nodes work at once."""

    write: Rate | None = Field(
        default=None, description="Least GB/s that a node writes, synchronised; none: measured, not judged"
    )
    read: Rate | None = Field(
        default=None, description="Least GB/s that a node reads with a cold cache; none: measured, not judged"
    )
    tail: Seconds | None = Field(
        default=None,
        description="Longest time, in seconds, of one block of 16 MiB, or of synchronising a file; none: measured, not "
        "judged",
    )
    origin: Text = Field(
        description="Where the floor comes from: a contract, a data sheet, or who measured it and when"
    )


class Model(Frozen):
    """The model whose state is saved: layers of `width` x `width` weights."""

    layers: Count = Field(default=48, description="Number of layers")
    width: Count = Field(default=8192, description="Rows and columns of each layer")
    format: Literal["bf16", "fp32"] = Field(default="bf16", description="Number format of the weights")
    moments: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="Whether two moments of the optimizer are saved with each weight"
    )


class Storage(Frozen):
    """What checkpoints are kept on, and how fast and safe it must be."""

    device: Literal["gpu", "cpu"] = Field(
        default="gpu", description="Where ranks hold the model; cpu if the cluster has no real GPUs"
    )
    nodes: Count = Field(default=2, description="Number of nodes that save together")
    durable: Volume = Field(description="Volume that outlives nodes, and that all nodes see")
    local: Volume | None = Field(
        default=None,
        description="Volume of each node to which checkpoints are written first, a host_path or an empty_dir; "
        "none: CKPT-006 does not apply",
    )
    model: Model = Field(default=Model(), description="The model whose state is saved")
    floor: Floor | None = Field(
        default=None, description="Least speeds of a node; none: measured, not judged"
    )
    pause: Seconds = Field(
        default=10.0,
        description="Longest time, in seconds, that an asynchronous save may keep training from its next step",
    )
    flush: Seconds = Field(
        default=300.0,
        description="Longest time, in seconds, until a checkpoint on `local` is whole on `durable`",
    )
    kills: Count = Field(default=5, description="Number of saves that are killed at a random moment")

    @model_validator(mode="after")
    def _durable_outlives_its_pods(self) -> Self:
        if self.durable.source == "empty_dir":
            raise PydanticCustomError(
                "durable_empty_dir",
                "must be claim, storage_class or host_path: an empty_dir goes with its pod, and nobody else sees it",
            )
        if (
            self.durable.source == "storage_class"
            and self.durable.access == "ReadWriteOnce"
            and self.nodes > 1
        ):
            raise PydanticCustomError(
                "durable_of_one_node",
                "must be ReadWriteMany: {nodes} nodes save together (storage.nodes)", {"nodes": self.nodes},
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _local_is_of_one_node(self) -> Self:
        if self.local is not None and self.local.source in ("claim", "storage_class"):
            raise PydanticCustomError(
                "local_claim",
                "must have the source host_path or empty_dir: a claim is one volume for all pods",
            )
        return self
