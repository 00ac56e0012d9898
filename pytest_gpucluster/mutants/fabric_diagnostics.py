"""Departures of what NCCL says of its own paths."""

import dataclasses
from collections.abc import Callable

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.measure.nccl import diagnostics
from pytest_gpucluster.mutants import base


def _said(change: Callable[[str], str | None]) -> base.Act:
    """Return the mutant that rewrites lines of the reports; None drops a line."""

    def mutant(evidence: Evidence) -> Evidence:
        lines = []
        for line in evidence.lines:
            text = str(line.data.get("line") or "")
            if line.type != "LOG" or diagnostics.MARK not in text:
                lines.append(line)
                continue
            told = change(text)
            if told is not None:
                lines.append(dataclasses.replace(line, data={**line.data, "line": told}))
        return base.with_lines(evidence, lines)

    return base.only("nccl-diagnostics", mutant)


def _as(start: str, text: str) -> Callable[[str], str | None]:
    """Return the change of the line whose message begins so."""

    def change(line: str) -> str:
        head, mark, message = line.partition(f"{diagnostics.MARK} ")
        return f"{head}{mark}{text}" if message.startswith(start) else line

    return change


P2P = "[OK]   p2p:"
_FAILED = (
    "[INFO] p2p: write mismatch srcRank=2 srcCudaDev=2 srcNvmlDev=2 dstRank=3 dstCudaDev=3 dstNvmlDev=3 path=NVL "
    "handle=CUMEM_POSIX_FD expected=0x1 got=0x0 verify=0x0; check the single-node NVLink topology"
)

MUTANTS: base.Table = {
    "fabric.diagnosed-edge-failed": base.Mutant(
        "data from one GPU to another does not arrive", _said(_as(P2P, _FAILED)), {"FAB-020": "fail"}
    ),
    "fabric.diagnosed-fewer-verified": base.Mutant(
        "the report says that 22 of 24 pairs were verified",
        _said(_as(P2P, "[INFO] p2p: 22/24 directed GPU P2P edges verified")),
        {"FAB-020": "fail"},
    ),
    "fabric.diagnosed-fewer-tried": base.Mutant(
        "12 of 24 pairs were tried, all of them well",
        _said(_as(P2P, "[OK]   p2p: all 12 directed GPU P2P edges verified")),
        {"FAB-020": "inconclusive"},
    ),
    "fabric.diagnosed-silent": base.Mutant(
        "the report has no line about peer-to-peer paths, as where they are switched off",
        _said(lambda line: None if " p2p: " in line else line),
        {"FAB-020": "inconclusive"},
    ),
    "fabric.diagnosed-no-end": base.Mutant(
        "the report has no end",
        _said(lambda line: None if "NCCL diagnostics completed" in line else line),
        {"FAB-020": "inconclusive"},
    ),
    "fabric.diagnosed-memory-errors": base.Mutant(
        "one GPU has uncorrected memory errors",
        _said(_as("[OK]   ECC:", "[INFO] ECC: uncorrected volatile errors on rank(s) {3} (worst=2) across 8 ranks in "
                  "comm 0x4dba73aa1c4b6897")),
        {"FAB-020": "fail"},
    ),
    "fabric.diagnosed-link-down": base.Mutant(
        "one GPU has a link that is not active",
        _said(_as("[OK]   NVLink:", "[INFO] NVLink: inactive link(s) on rank(s) {5} across 8 ranks in comm "
                  "0x4dba73aa1c4b6897")),
        {"FAB-020": "fail"},
    ),
    "fabric.diagnosed-other-settings": base.Mutant(
        "a setting differs between ranks, not only the names of their logs",
        _said(lambda line: line.replace("NCCL_DEBUG_FILE", "NCCL_BUFFSIZE")),
        {"FAB-020": "fail"},
    ),
    "fabric.diagnosed-unnamed-settings": base.Mutant(
        "more settings differ between ranks than are named",
        _said(lambda line: line.replace("1 NCCL_* env var(s) differ", "2 NCCL_* env var(s) differ")),
        {"FAB-020": "inconclusive"},
    ),
    "fabric.diagnosed-some-ranks": base.Mutant(
        "RAS gathered the data of seven of eight ranks",
        _said(_as("[OK]   GPU inventory:", "[INFO] GPU inventory: diagnostics incomplete, gathered 7/8 ranks in comm "
                  "0x4dba73aa1c4b6897")),
        {"FAB-020": "inconclusive"},
    ),
    "fabric.diagnosed-slow-adapter": base.Mutant(
        "the network of one rank is off the median of all",
        _said(_as("[OK] net bw:", "[INFO] net bw: same-nic rank 5 (gpu-1): 196.2 Gbit/s, >30% off median 392.4 Gbit/s "
                  "in comm 0x4dba73aa1c4b6897")),
        {"FAB-020": "fail"},
    ),
    "fabric.diagnosed-no-network": base.Mutant(
        "the tool that measures the network is not in the image",
        _said(_as("[OK] net bw:", "[INFO] net bw: required external tool missing in comm 0x4dba73aa1c4b6897")),
        {"FAB-020": "inconclusive"},
    ),
    "fabric.diagnosed-not-printed": base.Mutant(
        "no report was printed by an NCCL that has them", _said(lambda _line: None), {"FAB-020": "inconclusive"}
    ),
}  # fmt: skip
