"""A real training step: a decoder in the style of GPT, sharded by FSDP2, timed, its FLOPs counted twice.

Run by torchrun, or alone. The size is given by arguments; without a GPU it is small and in fp32. Every rank trains on
batches of its own from a fixed stream; one batch, the same on all ranks, is looked at before and after: its loss must
be the same on every rank, and must have fallen. FLOPs are those that the mathematics needs, by formula, and beside
them those that torch's counter counts in one block and in the head; recomputation earns nothing. Rank 0 prints where
the time goes to standard error. Depends on torch alone. Lines as in `lines.py`.
"""

import argparse
import contextlib
import datetime as dt
import gc
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable  # noqa: TC003 - a payload has no imports that only types need
from typing import Any

# Read by torch when it is imported: large activations of one size leave no holes then.
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from gauges import Gauges, identity, kind_of, spread, variation
from lines import digits, place_in_world, say

STEADY_STEPS = 10
"""So many last steps decide whether the speed is steady."""


class Block(nn.Module):  # type: ignore[misc]
    """One layer: attention and a feed-forward part of four times the width, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        """Make the weights."""
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm_mlp = nn.LayerNorm(width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x after the layer."""
        x = x + self.out(attend(self.qkv(self.norm_attention(x)), self.heads))
        return x + self.down(F.gelu(self.up(self.norm_mlp(x)), approximate="tanh"))


class Head(nn.Module):  # type: ignore[misc]
    """The last norm, the product with the vocabulary, and the loss."""

    def __init__(self, width: int, vocab: int, chunks: int) -> None:
        """Make the weights."""
        super().__init__()
        self.norm = nn.LayerNorm(width, bias=False)
        self.words = nn.Linear(width, vocab, bias=False)
        self.chunks = chunks

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss; chunk by chunk, so that never all logits exist in fp32 at once."""
        x = self.norm(x).flatten(0, 1)
        parts = [
            F.cross_entropy(self.words(rows).float(), wanted, reduction="sum")
            for rows, wanted in zip(x.chunk(self.chunks), targets.flatten().chunk(self.chunks), strict=True)
        ]
        return torch.stack(parts).sum() / targets.numel()


class Decoder(nn.Module):  # type: ignore[misc]
    """Embeddings, layers, head."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Make the weights, on the meta device where that is the default."""
        super().__init__()
        self.recompute = args.recompute
        self.tokens = nn.Embedding(args.vocab, args.width)
        self.places = nn.Embedding(args.seq, args.width)
        self.blocks = nn.ModuleList(Block(args.width, args.heads) for _ in range(args.layers))
        self.head = Head(args.width, args.vocab, args.loss_chunks)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss."""
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            recomputed = self.recompute and torch.is_grad_enabled()
            x = checkpoint(block, x, use_reentrant=False) if recomputed else block(x)
        loss: torch.Tensor = self.head(x, targets)
        return loss


def formula(args: argparse.Namespace) -> dict[str, int]:
    """Return the FLOPs of a token by formula, forward and backward, without recomputation.

    6 for each weight that multiplies (layers and head, not the embeddings); attention 12 x layers x width x sequence
    by the published convention, which counts the whole square, and half of it for what the causal mask leaves.
    """
    weights = args.layers * 12 * args.width**2 + args.width * args.vocab
    square = 12 * args.layers * args.width * args.seq
    return {"weights": 6 * weights, "attention": square, "attention_causal": square // 2}


def counted(args: argparse.Namespace, device: torch.device, kind: torch.dtype) -> dict[str, float]:
    """Return the FLOPs of a token as torch's counter sees them: one block times their number, and the head."""
    with torch.device(device):
        block, head = (
            Block(args.width, args.heads).to(kind),
            Head(args.width, args.vocab, args.loss_chunks).to(kind),
        )
        x = torch.randn(1, args.seq, args.width, dtype=kind, requires_grad=True)
        targets = torch.zeros(1, args.seq, dtype=torch.long)
    found = {}
    runs: dict[str, Callable[[], torch.Tensor]] = {
        "layers": lambda: block(x).float().sum(),
        "head": lambda: head(x, targets),
    }
    for name, run in runs.items():
        counter = FlopCounterMode(display=False)
        with counter:
            run().backward()
        found[name] = counter.get_total_flops() / args.seq
    found["layers"] *= args.layers
    return found


def explained(args: argparse.Namespace, by_formula: dict[str, int], by_counter: dict[str, float]) -> str:
    """Return in which way the counter's sum differs from the formula's, in words."""
    rest = sum(by_counter.values()) - by_formula["weights"]
    one = args.layers * args.width * args.seq
    known = {
        0: "the counter saw no attention: on this device it is one operation that it does not know",
        12: "equal: the counter saw attention as two products forward and four backward, the whole square",
        14: "the counter adds what flash attention computes again in its backward pass: 2 of 14, which the formula "
        "leaves out as no part of the mathematics",
    }
    for times, text in known.items():
        if abs(rest - times * one) <= 0.005 * max(by_formula["weights"], 1):
            return text
    return f"not explained: beyond the weights the counter saw {rest / one:.2f} x layers x width x sequence"


def batch_of(args: argparse.Namespace, device: torch.device, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens and what follows each; the same for the same seed on every machine."""
    maker = torch.Generator().manual_seed(seed)
    text = torch.randint(0, args.vocab, (args.batch, args.seq + 1), generator=maker).to(device)
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def attend(qkv: torch.Tensor, heads: int) -> torch.Tensor:
    """Return what each place sees of those before it; queries, keys and values lie side by side."""
    batch, length, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = qkv.view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
    seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return seen.transpose(1, 2).reshape(batch, length, width)


def attention_time(
    way: SDPBackend, qkv: torch.Tensor, heads: int, *, compiled: bool
) -> tuple[float, torch.Tensor] | None:
    """Return milliseconds and answer of one way of attention, forward and backward; None where it does not work."""
    torch.compiler.reset()  # The choice of a way is no part of what compiled code is kept by.
    run = torch.compile(attend) if compiled else attend
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    try:
        with sdpa_kernel([way]):
            for turn in range(8):
                if turn == 3:
                    start.record()
                answer = run(qkv, heads)
                answer.backward(torch.ones_like(answer))
        end.record()
        end.synchronize()
    except Exception as error:  # noqa: BLE001 - what fails here is not taken, whatever its reason
        sys.stderr.write(f"attention by {way.name}: {' '.join(str(error).split())[:200]}\n")
        return None
    return start.elapsed_time(end) / 5, answer.detach()


def fastest_attention(
    args: argparse.Namespace, device: torch.device, *, compiled: bool
) -> tuple[list[SDPBackend], dict[str, float]]:
    """Return the way of attention that is fastest here, those to fall back on, and milliseconds of each."""
    flash, cudnn = SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION
    ways = [flash, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    if device.type != "cuda" or args.attention == "default":
        return [], {}
    if args.attention != "measured":
        return [getattr(SDPBackend, args.attention.upper()), *ways], {}
    shape = (args.batch, args.seq, 3 * args.width)
    qkv = torch.randn(shape, device=device, dtype=torch.bfloat16, requires_grad=True)
    found = {way: attention_time(way, qkv, args.heads, compiled=compiled) for way in (flash, cudnn)}
    torch.compiler.reset()
    told = {way.name: digits(one[0]) for way, one in found.items() if one is not None}
    of_flash, of_cudnn = found[flash], found[cudnn]
    alike = (
        of_flash is not None
        and of_cudnn is not None
        and bool((of_flash[1].float() - of_cudnn[1].float()).abs().max() < 0.02)
    )
    better = alike and of_flash is not None and of_cudnn is not None and of_cudnn[0] < of_flash[0]
    # Every rank must take the same way, else their losses differ.
    choice = torch.tensor([float(better)], device=device)
    dist.all_reduce(choice, dist.ReduceOp.MIN)
    return [cudnn, *ways] if int(choice) else ways, told


def compiler_works(device: torch.device) -> str:
    """Return why torch.compile cannot be used here, "" where it can."""
    try:
        x = torch.ones(64, 64, device=device, requires_grad=True)
        torch.compile(lambda y: F.gelu(y * 2 + 1).sum())(x).backward()
    except Exception as error:  # noqa: BLE001 - a missing compiler is told in many ways
        return " ".join(str(error).split())[:160] or type(error).__name__
    return ""


def build(args: argparse.Namespace, device: torch.device, mesh: Any, *, compiled: bool) -> Decoder:
    """Return the model, its weights made on the device, sharded over all ranks."""
    with torch.device("meta"):
        model = Decoder(args)
    if compiled:
        for at, block in enumerate(model.blocks):
            model.blocks[at] = torch.compile(block, fullgraph=True)
        model.head = torch.compile(model.head, fullgraph=True)
    reduce = torch.bfloat16 if args.reduce == "bf16" else torch.float32
    half = device.type == "cuda"
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if half else None, reduce_dtype=reduce if half else None
    )
    reshard = args.reshard == "yes"
    for part in (*model.blocks, model.head):
        fully_shard(part, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    model.to_empty(device=device)
    torch.manual_seed(0)
    for name, weight in model.named_parameters():
        if "norm" in name:
            nn.init.ones_(weight)
        else:
            nn.init.normal_(
                weight,
                std=0.02 / ((2 * args.layers) ** 0.5 if name.endswith(("out.weight", "down.weight")) else 1),
            )
    return model


class Trainer:
    """The loop: steps, their marks, what they cost."""

    def __init__(self, args: argparse.Namespace, device: torch.device, model: Decoder) -> None:
        """Make the optimizer and the stream of batches."""
        self.args, self.device, self.model = args, device, model
        fused = device.type in {"cuda", "cpu"}
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, betas=(0.9, 0.95), fused=fused)
        rank = int(os.environ.get("RANK", "0"))
        self.batches = [batch_of(args, device, 1000 * (rank + 1) + at) for at in range(args.batches)]
        self.probe = batch_of(args, device, 1000)
        # The probe is in everybody's stream: ranks that stay in step learn it alike.
        self.batches.append(self.probe)
        self.done = 0

    def mark(self) -> Any:
        """Return a point of time on the device's own clock."""
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        """Return the seconds between two points."""
        return float(start.elapsed_time(end)) / 1e3 if self.device.type == "cuda" else float(end - start)

    def settle(self) -> None:
        """Wait until the device has done all that it was asked for."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def step(self) -> tuple[torch.Tensor, list[Any]]:
        """Take one step; returns the loss, still on the device, and the marks after its parts."""
        tokens, targets = self.batches[self.done % len(self.batches)]
        self.done += 1
        loss = self.model(tokens, targets)
        marks = [self.mark()]
        loss.backward()
        marks.append(self.mark())
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        marks.append(self.mark())
        return loss.detach(), marks

    def look(self) -> float:
        """Return the loss of the common batch."""
        with torch.no_grad():
            return float(self.model(*self.probe))

    def run(self, steps: int) -> dict[str, Any]:
        """Take steps without waiting between them; returns seconds of each, of its parts, and by the host's clock."""
        gc.collect()
        self.settle()
        dist.barrier()
        host, last = time.perf_counter(), self.mark()
        marks, losses = [[last]], []
        for _ in range(steps):
            loss, made = self.step()
            losses.append(loss)
            marks.append(made)
        self.settle()
        wall = time.perf_counter() - host
        times, parts = [], []
        for before, after in itertools.pairwise(marks):
            points = [before[-1], *after]
            parts.append([self.between(a, b) for a, b in itertools.pairwise(points)])
            times.append(sum(parts[-1]))
        return {"times": times, "parts": parts, "wall": wall, "losses": [float(loss) for loss in losses]}

    def agreed(self, value: float) -> float:
        """Return the largest value of all ranks, so that all decide alike."""
        told = torch.tensor([value], device=self.device, dtype=torch.float32)
        dist.all_reduce(told, dist.ReduceOp.MAX)
        return float(told)


def measured(trainer: Trainer, args: argparse.Namespace) -> dict[str, Any]:
    """Warm up, then take steps by tens until they are steady; all ranks stop at the same step."""
    warm, seconds = 0, 0.0
    while warm < args.warm_steps or seconds < args.warm:
        seconds += trainer.agreed(trainer.run(1 if warm < args.warm_steps else 2)["wall"])
        warm = trainer.done
    found: dict[str, Any] = {"times": [], "parts": [], "wall": 0.0, "losses": [], "warm_steps": warm}
    while True:
        part = trainer.run(min(STEADY_STEPS, args.steps))
        for key in ("times", "parts", "losses"):
            found[key] += part[key]
        found["wall"] += part["wall"]
        found["cv"] = variation(found["times"][-STEADY_STEPS:])
        unsteady = trainer.agreed(found["cv"]) >= args.cv
        spent = trainer.agreed(found["wall"])
        if len(found["times"]) >= args.steps and (not unsteady or spent >= args.most):
            found["steady"] = not unsteady
            return found


NO_KERNEL = ("nccl:", "fsdp::", "record_param", "profilerstep", "##", "optimizer.", "torch-compiled")
"""How spans begin that stand among the kernels and are none."""
CLASSES = {
    "elementwise": ("triton",),
    "communication": ("nccl", "rccl"),
    "attention": ("flash", "fmha", "sdpa", "attention"),
    "products": ("gemm", "cutlass", "nvjet", "cublas", "xmma", "cijk"),
    "optimizer": ("adam", "multi_tensor"),
    "copies": ("memcpy", "memset", "cat", "split"),
}
"""What a kernel does -> parts of the names, the first that fits; all else is element by element."""


def where_time_goes(trainer: Trainer, steps: int = 2) -> dict[str, Any]:
    """Return milliseconds of a step by kind of kernel, of communication that nothing hides, and of idling."""
    if trainer.device.type != "cuda":
        return {}
    try:
        from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415 - only where there is something to see

        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            trainer.run(steps)
        kernels = [
            (event.time_range.start, event.time_range.end, event.name.lower())
            for event in seen.events() or ()
            if event.device_type.name == "CUDA" and event.time_range.end > event.time_range.start
            and not event.name.lower().startswith(NO_KERNEL)
        ]  # fmt: skip
    except Exception as error:  # noqa: BLE001 - counters may be forbidden, or held by another program
        return {"absent": " ".join(str(error).split())[:160]}
    if not kernels:
        return {"absent": "the profiler saw no kernel"}
    sums: dict[str, float] = {}
    work: list[tuple[float, float]] = []
    talk: list[tuple[float, float]] = []
    for start, end, name in kernels:
        kind = next(
            (what for what, parts in CLASSES.items() if any(part in name for part in parts)), "elementwise"
        )
        sums[kind] = sums.get(kind, 0.0) + end - start
        (talk if kind == "communication" else work).append((start, end))
    busy, computing = union([*work, *talk]), union(work)
    whole = max(end for _, end, _ in kernels) - min(start for start, _, _ in kernels)
    sums["communication_exposed"] = busy - computing
    sums["idle"] = whole - busy
    return {name: digits(took / steps / 1e3) for name, took in sums.items()}


def union(spans: list[tuple[float, float]]) -> float:
    """Return how much time some spans cover together."""
    covered, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered


def arguments() -> argparse.Namespace:
    """Return the arguments; sizes that were not given are those of the device."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("layers", "width", "heads", "seq", "batch", "vocab"):
        parser.add_argument(
            f"--{name}", type=int, default=0, help="default: by the device; batch is of one rank"
        )
    parser.add_argument("--steps", type=int, default=0, help="least measured steps")
    parser.add_argument("--warm-steps", type=int, default=5)
    parser.add_argument("--warm", type=float, default=-1.0, help="least seconds of warm-up")
    parser.add_argument(
        "--most", type=float, default=0.0, help="most seconds of measured steps that do not get steady"
    )
    parser.add_argument("--cv", type=float, default=0.0, help="variation below which steps are steady")
    parser.add_argument(
        "--batches", type=int, default=3, help="batches of a rank's own, beside the common one"
    )
    parser.add_argument("--rate", type=float, default=0.0, help="learning rate")
    parser.add_argument("--loss-chunks", type=int, default=1)
    parser.add_argument("--recompute", action="store_true", help="checkpoint the activations of every layer")
    parser.add_argument("--compile", choices=["auto", "yes", "no"], default="auto")
    parser.add_argument(
        "--attention",
        choices=["measured", "default", "flash_attention", "cudnn_attention"],
        default="measured",
    )
    parser.add_argument(
        "--reshard", choices=["auto", "yes", "no"], default="auto", help="free weights after forward"
    )
    parser.add_argument(
        "--reduce", choices=["fp32", "bf16"], default="fp32", help="format in which gradients are summed"
    )
    parser.add_argument(
        "--plain", action="store_true", help="the plain loop: no compiler, defaults everywhere"
    )
    parser.add_argument(
        "--peak", type=float, default=0.0, help="dense TFLOP/s of one device, for the printed share"
    )
    parser.add_argument("--within", type=float, default=180.0, help="seconds in which all ranks meet")
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    args = parser.parse_args()
    args.gpus = 0 if args.cpu else torch.cuda.device_count()
    small = {
        "layers": 2, "width": 128, "heads": 2, "seq": 128, "batch": 2, "vocab": 512,
        "steps": 10, "warm": 0.0, "most": 4.0, "cv": 0.2, "rate": 1e-3,
    }  # fmt: skip
    # About 3 billion weights; a head of 128 and sides that are multiples of 256 suit the matrix units.
    large = {
        "layers": 24, "width": 3072, "heads": 24, "seq": 2048, "batch": 8, "vocab": 32768,
        "steps": 20, "warm": 10.0, "most": 60.0, "cv": 0.02, "rate": 1e-4,
    }  # fmt: skip
    for name, value in (large if args.gpus else small).items():
        if getattr(args, name) <= 0:
            setattr(args, name, value)
    if args.plain:
        args.compile, args.attention, args.reshard = "no", "default", "yes"
    if args.width % args.heads:
        parser.error(f"--width {args.width} is no multiple of --heads {args.heads}")
    if not args.gpus and args.compile == "auto":
        args.compile = "no"
    return args


def train(args: argparse.Namespace, device: torch.device, meter: Gauges) -> dict[str, Any]:
    """Build, warm up, measure; returns what the line tells."""
    began = time.perf_counter()
    half = torch.bfloat16 if device.type == "cuda" else torch.float32
    world = dist.get_world_size()
    by_formula = formula(args)
    by_counter = counted(args, device, half)
    why_not = compiler_works(device) if args.compile != "no" else "not asked for"
    if why_not and args.compile == "yes":
        raise RuntimeError(f"torch.compile does not work here: {why_not}")
    backends, attention_ms = fastest_attention(args, device, compiled=not why_not)
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
    weights = args.layers * 12 * args.width**2 + (2 * args.vocab + args.seq) * args.width
    if args.reshard == "auto":
        total = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else 0
        args.reshard = "no" if 2 * weights < total / 10 else "yes"
    mesh = init_device_mesh(device.type, (world,))
    model = build(args, device, mesh, compiled=not why_not)
    trainer = Trainer(args, device, model)
    with sdpa_kernel(backends, set_priority=True) if backends else contextlib.nullcontext():
        gc.disable()
        first = trainer.look()
        started = time.perf_counter() - began
        with meter.sampled():
            found = measured(trainer, args)
        last = trainer.look()
        breakdown = where_time_goes(trainer)
        gc.enable()
    times: list[float] = found["times"]
    tokens = args.batch * args.seq
    per_token = by_formula["weights"] + by_formula["attention"]
    speed = tokens * len(times) / found["wall"]
    names = ("forward", "backward", "optimizer")
    told: dict[str, Any] = {
        "size": {key: getattr(args, key) for key in ("layers", "width", "heads", "seq", "batch", "vocab")},
        "weights": weights,
        "format": "bf16" if device.type == "cuda" else "fp32",
        "how": {
            "compiled": not why_not, "why_not": why_not, "recompute": args.recompute, "reshard": args.reshard,
            "reduce": args.reduce, "attention": backends[0].name if backends else "default",
            "attention_ms": attention_ms,
        },
        "steps": len(times),
        "warm_steps": found["warm_steps"],
        "start_s": digits(started),
        "wall": digits(found["wall"]),
        "seconds": digits(sum(times)),
        "step_s": spread(times),
        "cv": digits(found["cv"]),
        "steady": found["steady"],
        "parts_s": {
            name: digits(statistics.median(part[at] for part in found["parts"])) for at, name in enumerate(names)
        },
        "tokens_per_s": digits(speed),
        "flop_per_token": {
            **by_formula, "counted": digits(sum(by_counter.values())),
            "difference": explained(args, by_formula, by_counter),
        },
        "tflops": digits(speed * per_token / 1e12),
        "tflops_causal": digits(speed * (per_token - by_formula["attention_causal"]) / 1e12),
        "loss": {
            "common": [first, last], "first": digits(found["losses"][0]), "last": digits(found["losses"][-1]),
        },
        "breakdown_ms": breakdown,
    }  # fmt: skip
    if device.type == "cuda":
        told["peak_gib"] = digits(torch.cuda.max_memory_allocated(device) / 2**30)
    return told


def table(told: dict[str, Any], peak: float) -> str:
    """Return the breakdown as lines for a reader."""
    step = told["step_s"]
    median, low, high = (step[key] * 1e3 for key in ("median", "p5", "p95"))
    speed, memory = f"{told['tflops']:.1f} TFLOP/s a rank", told.get("peak_gib", "?")
    lines = [
        f"{told['weights'] / 1e9:.2f} B weights, {told['size']}, {told['format']}, {told['how']}",
        f"step {median:.1f} ms (p5 {low:.1f}, p95 {high:.1f}, CV {told['cv']:.3f}), {told['steps']} steps",
        f"  {told['tokens_per_s']:.0f} tokens/s a rank, {speed} ({told['tflops_causal']:.1f} causal), {memory} GiB",
        "  parts ms: " + ", ".join(f"{name} {took * 1e3:.1f}" for name, took in told["parts_s"].items()),
        "  kernels ms a step: "
        + (", ".join(f"{k} {v}" for k, v in told["breakdown_ms"].items()) or "no GPU"),
        f"  FLOP a token: {told['flop_per_token']}",
        f"  loss of the common batch: {told['loss']['common'][0]:.4f} -> {told['loss']['common'][1]:.4f}",
    ]
    if peak:
        causal = told["tflops_causal"] / peak
        lines.append(
            f"  MFU {told['tflops'] / peak:.4f} of {peak:g} TFLOP/s (causal half counted: {causal:.4f})"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Join the world, train, tell; returns 0 when the loss fell."""
    args = arguments()
    who = place_in_world()
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    # Said before the group forms: in a hang it is the only evidence of who was there.
    say("rank", program="train_step", torch=torch.__version__, gpus=args.gpus, **who)
    if args.gpus and local >= args.gpus:
        error = f"local rank {local} has no GPU, {args.gpus} are visible"
        say("failed", kind="device", during="start", error=error, **who)
        return 1
    device = torch.device("cuda", local) if args.gpus else torch.device("cpu")
    during, itself = "start", {}
    try:
        if args.gpus:
            torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")
        itself = identity(device)
        meter = Gauges(device, str(itself.get("uuid") or ""), period=0.5)
        during = "meeting"
        dist.init_process_group("nccl" if args.gpus else "gloo", timeout=dt.timedelta(seconds=args.within))
        dist.barrier()
        during = "training"
        told = train(args, device, meter)
    except Exception as error:  # noqa: BLE001 - whatever it is: one line tells it
        text = " ".join(str(error).split())[:300]
        kind = "meeting" if during == "meeting" else kind_of(error)
        if kind == "memory":
            batch = f"a batch of {args.batch} x {args.seq} tokens a rank does not fit"
            text = f"{batch}: take a smaller --batch, or --recompute; {text}"
        say("failed", kind=kind, during=during, error=text[:400], device=itself, **who)
        return 1
    say("train", device=itself, gauges=meter.told(), torch=torch.__version__, **told, **who)
    if rank == 0:
        sys.stderr.write(table(told, args.peak))
    dist.barrier()
    dist.destroy_process_group()
    first, last = told["loss"]["common"]
    return 0 if last < first else 1


if __name__ == "__main__":
    sys.exit(main())
