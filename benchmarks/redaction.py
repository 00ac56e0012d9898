"""What it costs to take secrets out: of the nodes of a large cluster, of logs, of pods.

Reference, in the same run: writing the same as JSON, as lines of a session's log are. Prints microseconds and ratios,
and ends with 1 where a target is missed. The target for nodes is what it cost when each was searched as a text: 2.7
times its JSON. Other kinds have no target.

    python benchmarks/redaction.py [--nodes 5000] [--rounds 7]
"""

import argparse
import json
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import scale  # noqa: E402 - found by the path above
from pytest_gpucluster.plain import redact, secret_logs, secret_texts  # noqa: E402
from pytest_gpucluster.scenario import log  # noqa: E402

MOST = {"nodes": 2.7}
"""Kind -> highest ratio."""


def nodes(count: int) -> list[dict[str, Any]]:
    """Return nodes as a watch tells them, with the names and ids of a cloud, which differ from node to node."""
    made = []
    for number in range(count):
        node = log.lean("Node", {"kind": "Node", **scale.node(number)})
        name = f"ip-10-{number // 200}-{number % 200}-17.eu-west-1.compute.internal"
        ids = {key: str(uuid.UUID(int=number + 1)) for key in ("systemUUID", "bootID")}
        metadata = node["metadata"]
        labels = {**metadata["labels"], "kubernetes.io/hostname": name}
        node["metadata"] = {**metadata, "name": name, "labels": labels, "uid": str(uuid.UUID(int=number))}
        node["spec"] = {**node["spec"], "providerID": f"aws:///eu-west-1a/i-0{number:016x}"}
        node["status"] = {**node["status"], "nodeInfo": {**node["status"]["nodeInfo"], **ids}}
        made.append(node)
    return made


def pods(count: int) -> list[dict[str, Any]]:
    """Return pods with commands and variables."""
    return [
        {
            "kind": "Pod",
            "metadata": {"name": f"train-{number}", "namespace": "ml", "annotations": {"volcano.sh/task-index": "1"}},
            "spec": {"containers": [{
                "name": "main", "image": "registry.example/train/torch:2.15",
                "command": ["bash", "-c", "torchrun --nnodes=2 --nproc-per-node=8 train.py --lr 1e-4 --run-name x"],
                "env": [{"name": "RANK", "value": str(number)}, {"name": "HF_HOME", "value": "/data"}],
            }]},
        }
        for number in range(count)
    ]  # fmt: skip


def lines() -> list[str]:
    """Return lines of logs that were recorded."""
    folder = ROOT / "fixtures" / "recorded" / "nccl"
    texts = [path.read_text(errors="replace") for path in sorted(folder.rglob("*")) if path.is_file()]
    return list(dict.fromkeys(line for text in texts for line in text.splitlines()))


def fastest(what: Sequence[Any], do: Callable[[Any], object], rounds: int) -> float:
    """Return the fewest seconds for each of many things; what was remembered of a round before is forgotten."""
    found = []
    for _ in range(rounds):
        secret_texts.forget()
        begun = time.perf_counter()
        for one in what:
            do(one)
        found.append(time.perf_counter() - begun)
    return min(found) / len(what)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 when a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000, help="nodes (default 5000)")
    parser.add_argument(
        "--rounds", type=int, default=7, help="rounds, of which the fastest counts (default 7)"
    )
    options = parser.parse_args(arguments)
    redactor = redact.Redactor()
    kinds: list[tuple[str, Sequence[Any], Callable[[Any], object]]] = [
        ("nodes", nodes(options.nodes), redactor.clean),
        ("pods", pods(2000), redactor.clean),
        ("log lines", lines(), secret_logs.Lines().clean),
    ]
    missed = False
    for name, what, do in kinds:
        cleaned = fastest(what, do, options.rounds)
        written = fastest(what, lambda one: json.dumps(one, separators=(",", ":")), options.rounds)
        ratio = cleaned / written
        missed |= ratio > MOST.get(name, float("inf"))
        print(
            f"{name:<10} {len(what):6} cleaned {cleaned * 1e6:7.1f} us each   as JSON {written * 1e6:6.1f} us   "
            f"ratio {ratio:5.2f}" + (f" (at most {MOST[name]})" if name in MOST else "")
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
