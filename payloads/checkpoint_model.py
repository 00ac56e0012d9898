"""The model whose state is saved: layers of the declared size under FSDP2 with AdamW, and digests of its state.

A digest sums the bits of every element, each with a weight of its place in the whole tensor, modulo 2^64. It is the
same however the tensor is split over ranks, and another one if a single bit differs or two pieces are exchanged.
"""

import dataclasses
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

CHUNK = 1 << 22
"""Elements that are digested at a time: more would need memory beside the model."""
MIX, MASK = 0x1E3779B97F4A7C15, (1 << 64) - 1
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclasses.dataclass(frozen=True)
class Size:
    """Layers of `width` x `width` weights, their format, and whether AdamW keeps two moments of each."""

    layers: int
    width: int
    format: str
    moments: bool

    @property
    def weights(self) -> int:
        """Return how many weights there are."""
        return self.layers * self.width**2

    @property
    def bytes(self) -> int:
        """Return the bytes of the whole state: weights, and two moments in the same format."""
        each = 2 if self.format == "bf16" else 4
        return self.weights * each * (3 if self.moments else 1)


class Stack(nn.Module):  # type: ignore[misc]
    """Layers one behind the other, each with a tanh."""

    def __init__(self, size: Size) -> None:
        """Make the layers."""
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(size.width, size.width, bias=False) for _ in range(size.layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x after all layers."""
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


class Trainer:
    """A model and its optimizer on the ranks of the default group; `step` counts what it has learned."""

    def __init__(self, size: Size, device: torch.device, seed: int) -> None:
        """Build on the meta device, shard, and fill each rank's own part: no rank ever holds the whole.

        Args:
            size: of the model.
            device: of this rank.
            seed: from which the weights are drawn.
        """
        self.size, self.device = size, device
        kind = torch.bfloat16 if size.format == "bf16" else torch.float32
        with torch.device("meta"):
            model = Stack(size).to(kind)
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        model.to_empty(device=device)
        self.draw = torch.Generator(device=device).manual_seed(seed + dist.get_rank())
        with torch.no_grad():
            for weight in model.parameters():
                weight.to_local().normal_(0, size.width**-0.5, generator=self.draw)
        self.model = model
        # One tensor after the other: the default needs a second copy of what it changes.
        self.optimizer = (
            torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False) if size.moments
            else torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)
        )  # fmt: skip
        self.step = 0

    def train(self, ready: Callable[[], object] = bool) -> float:
        """Take one step; returns the loss. The weights are not changed before `ready` has returned."""
        kind = next(self.model.parameters()).dtype
        x = torch.randn(8, self.size.width, device=self.device, generator=self.draw).to(kind)
        loss = self.model(x).float().pow(2).mean()
        loss.backward()
        ready()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        return float(loss.detach())

    def state(self) -> dict[str, Any]:
        """Return the state to save: tensors are the trainer's own, each rank has its part."""
        weights, moments = get_state_dict(self.model, self.optimizer)
        return {"model": weights, "optimizer": moments, "step": torch.tensor(self.step)}

    def take(self, state: Mapping[str, Any]) -> None:
        """Take over a state that was loaded."""
        set_state_dict(
            self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        self.step = int(state["step"])

    def digests(self) -> list[str]:
        """Return the digest of each layer's weights and moments; the same on all ranks."""
        return digests(self.state(), self.size.layers)


def digests(state: Mapping[str, Any], layers: int) -> list[str]:
    """Return the digest of each layer's tensors, over all ranks; without a process group: of what is here."""
    sums = torch.zeros(layers, dtype=torch.int64)
    for name, tensor in sorted(flat(state)):
        at = layer_of(name)
        if at is not None and at < layers:
            sums[at] += own_sum(tensor, salt(name))
    if dist.is_initialized():
        dist.all_reduce(sums, group=None)
    return [f"{int(value) & MASK:016x}" for value in sums]


def flat(state: Mapping[str, Any], prefix: str = "") -> list[tuple[str, torch.Tensor]]:
    """Return the tensors of a state with their names, in no order; counters of the optimizer are left out."""
    found: list[tuple[str, torch.Tensor]] = []
    for key, value in state.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping):
            found += flat(value, name)
        elif isinstance(value, torch.Tensor) and value.ndim:
            found.append((name, value))
    return found


def layer_of(name: str) -> int | None:
    """Return the number of the layer that a tensor's name names."""
    words = name.split(".")
    at = words.index("layers") + 1 if "layers" in words else len(words)
    return int(words[at]) if at < len(words) and words[at].isdigit() else None


def salt(name: str) -> int:
    """Return a number of a tensor's name, so that exchanged tensors have another digest."""
    value = 0
    for letter in name.encode():
        value = (value * 1099511628211 + letter) & 0x7FFFFFFF
    return value


def own_sum(tensor: torch.Tensor, salted: int) -> int:
    """Return the sum over this rank's part of a tensor: bits of each element times a weight of its place."""
    start, local = 0, tensor
    if isinstance(tensor, DTensor):
        local = tensor.to_local()
        rows, world = tensor.shape[0], tensor.device_mesh.size()
        # As FSDP2 splits: rows in equal chunks, the last ones shorter or empty.
        row = min(rows, -(-rows // world) * tensor.device_mesh.get_local_rank())
        start = row * math.prod(tensor.shape[1:])
    bits = local.detach().contiguous().view(-1)
    bits = bits.view(BITS[bits.element_size()])
    total = 0
    for begin in range(0, bits.numel(), CHUNK):
        part = bits[begin : begin + CHUNK].to(torch.int64)
        place = torch.arange(start + begin, start + begin + part.numel(), device=part.device) + salted
        weight = place * MIX
        weight ^= weight >> 31
        total += int(((part + 1) * weight).sum())
    return signed(total)


def signed(value: int) -> int:
    """Return a number modulo 2^64, as 64 bits with a sign."""
    value &= MASK
    return value - (1 << 64) if value >> 63 else value


def shown(error: BaseException) -> str:
    """Return an error in one line; of one that torch has gathered from several ranks, what the first of them raised."""
    failures = getattr(error, "failures", None)
    first = next(iter(failures.values()), None) if isinstance(failures, dict) else None
    inner = first[0] if isinstance(first, tuple) else first
    if isinstance(inner, BaseException):
        return f"{type(inner).__name__}: {' '.join(str(inner).split())}"[:500]
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]


def device_of(local: int, *, cpu: bool) -> torch.device:
    """Return the device of a rank; the program ends where it has none."""
    if cpu or not torch.cuda.is_available():
        return torch.device("cpu")
    if local >= torch.cuda.device_count():
        sys.exit(f"local rank {local} has no GPU, {torch.cuda.device_count()} are visible")
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    return device
