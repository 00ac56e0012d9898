"""Evidence of a machine with two sockets that was not at hand: `python -m tests.defects.construct_alignment FILE`.

FILE is the evidence of the scenario `alignment` from a run of `--cluster=host` on a made-up machine with two NUMA nodes
(`tests.provider.host.machines.hgx`). What the machine itself says in the pods (NUMA nodes of CPUs, pages, buses) is
made up here to agree with what the nodes' device managers handed out; the header says so.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pytest_gpucluster.evidence import Evidence, Line, read
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.mutants import base
from tests.defects import construct, matrix

NAME = "alignment"
TEXT = "what the machine says in the pods is made up: no machine with two sockets and adapters was at hand"


def settle(line: Line, told: dict[str, Any]) -> dict[str, Any]:
    """Let the machine agree with the device plugins."""
    if told.get("event") == "devices":
        node = int(told["devices"][0]["numa"])
        told.update(cpu_nodes=[node], mems="0-1", nodes="0-1")
        told["memory"] = {"policy": f"bind:{node}", "pages": {str(node): 2048}}
        for device in told["devices"]:
            device["bus"] = node
        for function in told["functions"]:
            function.update(name=f"mlx5_{function['name'].removeprefix('uverbs')}", numa=node)
    return told


def main(source: Path) -> str:
    """Write the evidence; returns where."""
    made = base.words(read(source), settle)
    evidence = Evidence(made.lines, header={**made.header, "constructed": TEXT}, spans=made.spans)
    text = "\n".join(
        json.dumps(line, separators=(",", ":")) for line in ingest.lines_of(construct.slim(evidence))
    )
    target = matrix.HOST / f"{NAME}.jsonl"
    target.write_text(text + "\n", encoding="utf-8")
    return str(target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m tests.defects.construct_alignment", description=__doc__)
    parser.add_argument("source", metavar="FILE", type=Path, help="evidence of the scenario alignment")
    sys.stdout.write(main(parser.parse_args().source) + "\n")
