"""`gpucluster judge nccl`: what the logs of a job say about its transports, without a cluster."""

import argparse
import gzip
import io
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pytest_gpucluster.cli import common
from pytest_gpucluster.plain import names, plurals, shortening

if TYPE_CHECKING:
    from pytest_gpucluster.measure import nccl

STATUS = {"pass": 0, "fail": 1, "inconclusive": 3}
"""Verdict -> exit status, as `gpucluster judge` has them."""
CHUNK = 100 * 1024
"""Bytes that are read at once: within the cache, and below the size from which each buffer is mapped anew."""

DESCRIPTION = """Read the logs of a job's ranks (NCCL, RCCL, nccl-tests) and decide whether the traffic between
nodes goes over RDMA with GPUDirect RDMA on all ranks; with --nodes 1, whether GPUs are connected directly. Only
connection lines prove a transport. Errors fail, and the decisive one comes first; an unknown warning or an unreadable
line prevents a pass.
Files are streamed; .gz is read; - is standard input.
"""
EXITS = {
    0: "pass: all ranks over all nodes use RDMA with GPUDirect RDMA; with --cases: no difference",
    1: "fail: a rank uses TCP or works without GPUDirect RDMA, ranks differ or an error is seen; with --cases: a "
    "difference",
    **common.MISTAKE,
    3: "inconclusive: the logs do not show it (run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV), or contain "
    "lines that are not understood",
}
EXAMPLES = """Examples: gpucluster judge nccl rank-*.log --ranks 16 --nodes 2 --hcas mlx5_0,mlx5_1
          kubectl logs -l job-name=train --prefix --tail=-1 | gpucluster judge nccl - --ranks 16 --nodes 2
"""


def parser() -> common.Parser:
    """Return the parser of the command."""
    from pytest_gpucluster.measure import nccl

    parser = common.Parser("judge nccl", DESCRIPTION, EXITS, EXAMPLES)
    parser.add_argument(
        "logs", metavar="LOG", nargs="*", help="log of one rank, of several, or of all; - for standard input"
    )
    parser.add_argument(
        "--ranks", metavar="N", type=_count, help="ranks of the job; without it nothing passes"
    )
    parser.add_argument(
        "--nodes", metavar="N", type=_count, help="machines of the job; without it nothing passes"
    )
    parser.add_argument(
        "--hcas", metavar="A,B", help="adapters that must be used: all of them, and no others"
    )
    parser.add_argument(
        "--pod-node",
        metavar="POD=NODE",
        action="append",
        default=[],
        help="machine of a pod (host name in the log)",
    )
    parser.add_argument(
        "--network", metavar="NAME=CLASS", action="append", default=[],
        help=f"class of a plugin's network: {', '.join(nccl.networks.CLASSES)}",
    )  # fmt: skip
    parser.add_argument(
        "--cases", metavar="FILE", type=Path, help="replay a file of cases instead, and compare"
    )
    parser.add_argument("--json", action="store_true", help="print facts and verdict as JSON")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    from pytest_gpucluster.measure import nccl

    options = parser().parse_args(arguments)
    if options.cases is not None:
        for name, value in vars(options).items():
            if name not in {"cases", "json"} and value:
                raise common.CliError(f"judge nccl: --cases goes with --json alone, not with {_option(name)}")
        return _replay(options.cases, as_json=options.json)
    if not options.logs:
        raise common.CliError("judge nccl: name the logs, - for standard input, or --cases FILE")
    given = nccl.Given(
        ranks=options.ranks,
        nodes=options.nodes,
        pod_nodes=dict(_pair(text, "--pod-node", "POD=NODE") for text in options.pod_node),
        expected_hcas=_hcas(options.hcas),
        networks=dict(_network(text) for text in options.network),
    )
    with common.reading(map(Path, options.logs), "judged"):
        found = nccl.draw(_read(options.logs), given)
    decision = nccl.verdict.with_adapters(found)
    if options.json:
        common.say_json(_as_data(found, decision))
    else:
        for line in _text(found, decision):
            common.say(line)
    return STATUS[decision.verdict]


def _option(name: str) -> str:
    return "logs" if name == "logs" else f"--{name.replace('_', '-')}"


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= 1_000_000 or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def _pair(text: str, option: str, shape: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise common.CliError(f"judge nccl: {option} {text!r}: expected {shape}")
    return key, value


def _network(text: str) -> tuple[str, str]:
    from pytest_gpucluster.measure import nccl

    name, kind = _pair(text, "--network", "NAME=CLASS")
    if kind not in nccl.networks.CLASSES:
        hint = names.did_you_mean(kind, nccl.networks.CLASSES)
        raise common.CliError(f"judge nccl: --network {text!r}: unknown class {kind!r}{hint}")
    return name, kind


def _hcas(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise common.CliError(
            f"judge nccl: --hcas {text!r}: expected names separated by commas, such as mlx5_0,mlx5_1"
        )
    return found


def _read(logs: Sequence[str]) -> "nccl.Seen":
    """Read the logs one after another; all paths are looked at before the first is opened."""
    from pytest_gpucluster.measure import nccl

    paths = [log if log == "-" else common.existing(Path(log), "log") for log in logs]
    for path in paths:
        if isinstance(path, Path) and path.is_dir():
            raise common.CliError(f"judge nccl: {str(path)!r} is a folder: name the logs in it")
    reader = nccl.Reader()
    for path in paths:
        chunks = _chunks(sys.stdin.buffer) if isinstance(path, str) else _file(path)
        try:
            for chunk in chunks:
                reader.feed(chunk)
        except EOFError:
            # A log that is still being packed, or was cut: what came before has been read.
            reader.seen.cut = True
        reader.end()
    return reader.seen


def _chunks(file: BinaryIO | gzip.GzipFile | io.BufferedReader) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _file(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as opened:
            yield from _chunks(opened)
    except (OSError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise common.CliError(f"judge nccl: {str(path)!r} cannot be read: {reason}") from None


def _as_data(found: "nccl.Facts", decision: Any) -> dict[str, Any]:
    from pytest_gpucluster.measure import nccl
    from pytest_gpucluster.plain import redact

    first = found.seen.first
    data = {
        "verdict": decision.verdict,
        "reasons": [{"decisive": r.decisive, "text": r.text} for r in decision.reasons],
        "advice": [{"cause": one.cause, "fix": one.fix} for one in decision.advice],
        "facts": nccl.verdict.values(found),
        "ranks": {str(rank): host for rank, host in sorted(found.ranks.items())},
        "connections": [
            {
                "rank": p.rank, "host": p.host, "peer": p.peer, "way": p.way, "gdr": p.gdr, "hcas": list(p.hcas),
                "via": f"NET/{p.name}" if p.carrier else p.name,
            }
            for p in found.paths[:10_000]
        ],
        "settings": found.settings,
        "plugins": found.plugins,
        "first_warning": first and {"host": first.process.host, "where": first.where, "text": first.text},
        "failures": list(found.outcomes),
    }  # fmt: skip
    cleaned: dict[str, Any] = redact.clean(data)
    return cleaned


def _text(found: "nccl.Facts", decision: Any) -> Iterator[str]:
    from pytest_gpucluster.measure import nccl
    from pytest_gpucluster.plain import redact

    values = nccl.verdict.values(found)
    yield f"{decision.verdict.upper()}: {redact.clean(_headline(found, decision))}"
    yield f"asked: {nccl.verdict.question(found)}"
    if found.given.nodes is None and found.nnodes == 1:
        yield "       NCCL counts one node here: if the job has one machine, pass --nodes 1"
    yield ""
    yield "facts"
    for title, text in _facts(found, values):
        yield f"  {title:<14} {redact.clean(text)}"
    if decision.reasons:
        yield ""
        yield "why"
        for reason in decision.reasons:
            yield f"  {'-' if reason.decisive else '?'} {redact.clean(reason.text)}"
    if decision.advice:
        yield ""
        yield "what to do"
        for number, one in enumerate(decision.advice, 1):
            yield f"  {number}. {redact.clean(one.cause)}"
            yield f"     fix: {redact.clean(one.fix)}"


def _headline(found: "nccl.Facts", decision: Any) -> str:
    """Return what was found, in one line: what decides, else what carried the traffic."""
    decisive = [one.text for one in decision.reasons if one.decisive]
    said = decisive or [one.text for one in decision.reasons]
    if said:
        more = f" (and {len(said) - 1} more below)" if len(said) > 1 else ""
        return f"{' '.join(str(said[0]).split())}{more}"
    carried = ", ".join(f"{name} [{found.carriers[name]}]" for name in found.net) or ", ".join(found.intra)
    ranks = found.nranks or found.given.ranks or len(found.ranks)
    return f"{ranks} ranks over {carried or found.kind}"


def _facts(found: "nccl.Facts", values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    from pytest_gpucluster.measure import nccl

    given = found.given
    yield "class", f"{found.kind} (evidence: {found.evidence})"
    nodes = "" if found.nnodes is None else f", {plurals.count(found.nnodes, 'node')} as NCCL counts them"
    stated = "? nodes" if given.nodes is None else plurals.count(given.nodes, "node")
    told = "" if given.ranks is None else f"; expected: {plurals.count(given.ranks, 'rank')}, {stated}"
    ranks = "unknown ranks" if found.nranks is None else plurals.count(found.nranks, "rank")
    yield "world", f"{ranks}{nodes}{told}"
    yield "ranks seen", f"{len(found.ranks)}: {_ranges(found.ranks)}" if found.ranks else "none"
    if found.net or found.selected:
        chosen = f" (chosen: {', '.join(found.selected)})" if found.selected else ""
        yield "network", f"{', '.join(f'{n} [{found.carriers[n]}]' for n in found.net) or 'none'}{chosen}"
    yield "GPUDirect", found.gdr
    if values["socket_ranks"]:
        yield "over TCP", f"ranks {_ranges(values['socket_ranks'])}"
    if values["no_gdr_ranks"]:
        yield "without GDR", f"ranks {_ranges(values['no_gdr_ranks'])}"
    if found.intra:
        inside = sorted({path.rank for path in found.paths if not path.carrier})
        yield "in a node", f"{', '.join(found.intra)} on ranks {_ranges(inside)}"
    if found.hcas_listed:
        yield (
            "adapters",
            f"used {', '.join(found.hcas_used) or 'unknown'}; listed {', '.join(found.hcas_listed)}",
        )
    if values["hca_check"]:
        yield "adapter check", f"{values['hca_check']} (expected {', '.join(given.expected_hcas or ())})"
    for key, title in (
        ("provider", "provider"),
        ("link_layer", "link layer"),
        ("rdma_mtu", "RDMA MTU"),
        ("nvls", "NVLS"),
    ):
        if values[key] is not None:
            yield title, str(values[key])
    if found.errors:
        yield "errors", ", ".join(found.errors)
    decides = next((one for one in (*found.troubles, *found.unknown) if one.fatal), None)
    if decides is not None:
        yield (
            "first error",
            f"{nccl.failing.who(found, (decides,))}: {shortening.shown(decides.fault.detail, 300)}".removeprefix(
                ": "
            ),
        )
    first = found.seen.first
    if first is not None:
        yield "first warning", f"{first.process.host.lstrip('?')}: {shortening.shown(first.text, 300)}"
    for stall in found.stalls[:4]:
        yield "stalled", f"rank {stall.rank}: {stall.operation} number {stall.sequence}, {stall.ran:.0f} s"
    for name, by_value in list(found.settings.items())[:30]:
        differ = " (ranks differ)" if len(by_value) > 1 else ""
        yield "setting", f"{name}={' | '.join(by_value)}{differ}"
    if found.versions:
        yield "version", ", ".join(found.versions)
    if values["rows"]:
        average = "" if values["busbw_avg"] is None else f", average {values['busbw_avg']:g} GB/s"
        wrong = "not checked" if values["wrong"] is None else values["wrong"]
        yield (
            "nccl-tests",
            f"{values['rows']} rows, at most {_or_unknown(values['busbw_max'])} GB/s{average}, wrong: {wrong}",
        )
    if values["torn_lines"]:
        yield "unread", f"{values['torn_lines']} lines are cut or of an unknown shape"


def _or_unknown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"


def _ranges(numbers: Any) -> str:
    """Return numbers as ranges."""
    from pytest_gpucluster.plain import ranges

    parts = ranges.parts(numbers)
    return ", ".join(parts[:20]) + (f" and {len(parts) - 20} more" if len(parts) > 20 else "")


def _replay(path: Path, *, as_json: bool) -> int:
    from pytest_gpucluster.measure import nccl

    cases = _cases(path)
    told: list[dict[str, Any]] = []
    wrong = 0
    for case in cases:
        differences = nccl.cases.differences(case)
        wrong += bool(differences)
        told.append(
            {"id": case.id, "ok": not differences,
             "differences": [{"key": d.key, "expected": d.expected, "found": d.found} for d in differences]}
        )  # fmt: skip
        if not as_json:
            said = "; ".join(f"{d.key} is {d.found!r}, expected {d.expected!r}" for d in differences)
            common.say(f"{'DIFF' if differences else 'ok  '} {case.id}{f': {said}' if said else ''}")
    if as_json:
        common.say_json({"cases": told, "different": wrong})
    else:
        common.say(f"{len(cases)} cases, {wrong} with differences")
    return 1 if wrong else 0


def _cases(path: Path) -> "list[nccl.cases.Case]":
    import yaml

    from pytest_gpucluster.measure import nccl

    common.existing(path, "file of cases")
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"), _loader())  # noqa: S506 - a safe loader
        return nccl.cases.parse(loaded)
    except OSError as error:
        raise common.CliError(f"judge nccl: {str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise common.CliError(f"judge nccl: {str(path)!r} is not text in UTF-8") from None
    except yaml.YAMLError as error:
        raise common.CliError(f"judge nccl: {str(path)!r} is not valid YAML: {error}") from None
    except RecursionError:
        raise common.CliError(
            f"judge nccl: {str(path)!r} is not valid YAML of cases: it is nested too deep"
        ) from None
    except nccl.cases.CaseError as error:
        raise common.CliError(f"judge nccl: {str(path)!r}: {error}") from None


def _loader() -> Any:
    """Return the safe loader of YAML, in C where there is one."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)
