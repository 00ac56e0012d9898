"""What the payloads always write of a fact: a line that lacks a part of it was cut, whatever a judge reads of it."""

import math
from collections.abc import Iterator, Mapping

from pytest_gpucluster.evidence.log.payload_lines import Word

_OF_A_RANK = ("rank", "world", "local_rank", "host")
_OF_ELASTIC = ("rank", "world", "index", "id", "restarts", "most")
_MEASURED = (
    "part", "parts", "backend", "node", "results",
    *(f"results.[].{key}" for key in ("size", "algbw", "busbw", "factor", "iters", "mean", "min", "wrong")),
)  # fmt: skip

FORMS: Mapping[str, tuple[str, ...]] = {
    "access": ("told", "files", "driver"),
    "adapter": ("name", "verbs", "file", "opens", "ports", "lost", "ports.[].state", "ports.[].rate"),
    "adapters": ("names", "count", "files", "root"),
    "argv": ("argv",),
    "asked": ("address", "ok"),
    "barrier": ("ok", "world", "members"),
    "began": ("endpoint", "host", "id"),
    "connected": ("ok", "to", "tries"),
    "devices": ("cpus", "mems", "nodes", "devices", "devices.[].id", "devices.[].numa"),
    "done": (),
    "elastic-broken": ("step", "error", "name", *_OF_ELASTIC),
    "elastic-client": ("backend", "ok", "torch", "python", "modules", "missing"),
    "elastic-crash": ("step", "name", *_OF_ELASTIC),
    "elastic-endpoint": ("backend", "endpoint", "ok", "kind", "error", "tries", "seconds", "version"),
    "elastic-formed": ("name", "resumed", "members", "found", "torch", *_OF_ELASTIC),
    "elastic-rank": ("master", *_OF_ELASTIC),
    "elastic-step": ("name", "step", "loss", "unbroken", "saved", "first", *_OF_ELASTIC),
    "elastic-store": ("backend", "port"),
    "env": ("env",),
    "exchanged": ("addresses", "endpoint", "got", "id", "nonce", "store", *_OF_A_RANK),
    "file": ("path", "text", "cut"),
    "flushed": ("ok", "node", "problem", "seconds", "step"),
    "found": ("names", "latest", *_OF_A_RANK),
    "gate": ("ok", "seconds", "within", "peers", "interface.name", "interface.tries", "t"),
    "gemm": ("device.kind", "device.name", "gauges", "results", *_OF_A_RANK),
    "gpu-health": ("node", "how", "index", "count", "gpu"),
    "kernel-log": ("node", "gpus", "problems", "readable", "why", "lines", "count"),
    "killed": (
        "after", "digests", "ended", "error", "killed", "look", "mount.fs", "round", "rounds", "seed", "usual",
        *_OF_A_RANK,
    ),
    "labels": ("ok", "code", "env", "missing", "node", "path"),
    "launching": ("env", "t"),
    "listening": ("port",),
    "loaded": ("name", "how", "problem", "step", "digests", "seconds", "complete", "latest", *_OF_A_RANK),
    "measured": ("first_pod", "first_process", "results.[].collective", *_MEASURED, *_OF_A_RANK),
    "member": ("index", "hostname", "ip"),
    "mpi-launch": ("ok", "code", "hosts", "error", "seconds"),
    "mpi-rank": ("rank", "world", "host", "sum", "library"),
    "nccl-log": ("lines", "part", "rank"),
    "pairs": ("results.[].peer", *_MEASURED, *_OF_A_RANK),
    "passed": ("place", "rank"),
    "place": ("place", "rank", "bound"),
    "rank": _OF_A_RANK,
    "paused": ("call", "early", "longest", "step", "steps", "took", "usual", *_OF_A_RANK),
    "read": ("step", "seconds", "cached", "digests", *_OF_A_RANK),
    "reduced": ("ok", "asked", "expected", "got", "has", "index", "interfaces"),
    "resolved": ("ok", "name", "addresses", "tries"),
    "saved": (
        "step", "how", "files", "complete", "own", "model", "digests", "handed", "memory.how", "memory.growth",
        "memory.device", "mount.fs", "mount.source", "mount.point", "seconds", *_OF_A_RANK,
    ),
    "storage": ("part", "bytes", "node_rank", "mount.fs", "mount.source", "mount.point", *_OF_A_RANK),
    "scraped": (
        "node", "url", "which", "elapsed", "asked", "failure", "why", "part", "parts", "lines", "left_out",
    ),
    "smoke": (
        "device.kind", "device.name", "flop_per_product", "n", "product_seconds", "product_tflops", "right", "seconds",
        "steps", "tflops", "tflops_documented", *_OF_A_RANK,
    ),
    "ssh-keys": (
        "folder", "files", "files.[].name", "files.[].mode", "files.[].uid", "key", "authorized", "uid", "home",
    ),
    "ssh-login": ("to", "ok", "code", "said", "error", "tries", "seconds"),
    "ssh-serving": ("ok", "code", "error", "port"),
    "stalled": ("absent", "bound", "collective", "node", "transport", "waited", *_OF_A_RANK),
    "stepped": (
        "ddp.far", "ddp.losses", "endpoint", "fsdp.far", "fsdp.losses", "fsdp.of", "fsdp.own", "id", "moved",
        "reference", *_OF_A_RANK,
    ),
    "sum": ("ok", "expected", "got", "backend", *_OF_A_RANK),
    "train": (
        "device.kind", "device.name", "flop_per_token.counted", "flop_per_token.weights", "format", "gauges",
        "how.compiled", "how.recompute", "loss.first", "loss.last", "breakdown_ms", *_OF_A_RANK,
    ),
    "trained": ("ok", "difference", "hostname", "index", "world"),
    "waited": ("ok", "names", "seconds", "within"),
    "who": (
        "device", "device_name", "handed", "handed_count", "node", "uuid", "uuid_by", "local_world", *_OF_A_RANK,
    ),
    "wired": ("ok", "asked", "has", "interface", "expected", "got", "rank", "world"),
    "wiring": ("ok", "has", "index", "interface"),
}  # fmt: skip
"""Event -> the parts that every line of it has, whatever came of it. Dots lead inside, `[]` into each of a list; a part
that is null is there. Who speaks (`pod`, `container`, `run`, `attempt`, `t`) is not repeated here."""


def lacks(word: Word) -> str:
    """Return the first part that a fact should have and has not, or "" for a whole one and one of no known form."""
    return next((part for part in FORMS.get(word.event, ()) if not _has(word.data, part.split("."))), "")


WHOLE = ("rank", "world", "index", "restarts", "most", "step", "resumed")
"""Parts of facts of elastic jobs that are whole numbers, and never negative."""
SUMS = ("sum", "reduced", "wired")
"""Events that tell a sum over all ranks, in which rank r gave r + 1."""


def doubt(word: Word, world: int | None) -> str:
    """Return why a fact is not what a payload of a healthy member says, "" where nothing speaks against it.

    Args:
        word: the fact.
        world: how many ranks were asked for, None where that is not known.
    """
    said = str(word.data.get("pod") or word.pod)
    if said != word.pod:
        return f"says that it is of {said}"
    odd = next(_not_finite(word.data), None)
    if odd is not None:
        return f"has {odd} as a figure"
    if word.event.startswith("elastic-"):
        wrong = next((key for key in WHOLE if key in word.data and not _whole(word.data[key])), None)
        if wrong is not None:
            return f"has {word.data[wrong]!r} as `{wrong}`"
    told = word.data.get("expected")
    size = word.number("world") or world
    if word.event in SUMS and size and told is not None and told != size * (size + 1) / 2:
        return f"says that {told} is the sum of {size} ranks"
    return ""


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _not_finite(told: Mapping[str, object]) -> Iterator[float]:
    """Yield what a fact says of itself that is no figure; lists of measured figures are judged one by one."""
    yield from (value for value in told.values() if isinstance(value, float) and not math.isfinite(value))


def _has(value: object, path: list[str]) -> bool:
    if not path:
        return True
    if path[0] == "[]":
        # What was skipped has no figures; that it was skipped is for judges to read.
        return isinstance(value, list) and all(
            _has(each, path[1:]) or (isinstance(each, Mapping) and "skipped" in each) for each in value
        )
    return isinstance(value, Mapping) and path[0] in value and _has(value[path[0]], path[1:])
