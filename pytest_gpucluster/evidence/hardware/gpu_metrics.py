"""What exporters of GPU metrics answered: pages in Prometheus' text format, read with the parser of its own client.

How exporters name their metrics is data (`fixtures/health/metrics.yaml`).
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import parser

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.measure import shipped

EVENT = "scraped"
ROLE = "subject"
ENDPOINTS = "read:endpointslices"
"""Case under which a scenario records the endpoints of a namespace; a colon and the namespace follow."""
PATIENCE = 10.0
"""Seconds in which a page must have come, as Prometheus gives it."""
TABLE, FOLDER = "metrics", "health"
UNKNOWN: Mapping[str, Any] = {
    "exporter": "the exporter",
    "prefixes": [],
    "gpu": ["UUID", "uuid", "gpu", "gpu_id", "device", "id"],
    "instance": [],
    "node": ["Hostname", "hostname", "node"],
    "none": 1e18,
    "metrics": {},
    "renamed": {},
}
"""What is taken of an exporter that the table does not have: its metrics are those that a profile names."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """What is asked of an exporter.

    Attributes:
        exporter: how findings name it.
        groups: what must be there -> names that it goes by.
        rising: names of counters that no GPU under power keeps still; empty where none is known.
        prefixes: how names of its metrics begin.
        labels: `gpu`, `instance` and `node` -> labels that say which it is, best first.
        none: from which number on a value stands for one that there is not.
    """

    exporter: str
    groups: Mapping[str, tuple[str, ...]]
    rising: tuple[str, ...]
    prefixes: tuple[str, ...]
    labels: Mapping[str, tuple[str, ...]]
    none: float

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name that is looked for."""
        every = [name for names in self.groups.values() for name in names]
        return tuple(dict.fromkeys([*every, *self.rising]))

    @property
    def counters(self) -> tuple[str, ...]:
        """Return the names of those that rise by themselves."""
        return self.rising


@dataclasses.dataclass(frozen=True)
class Sample:
    """One value of a page.

    Attributes:
        name: of the metric, as the page has it.
        gpu: which GPU, "" where no label says so.
        instance: which part of it, "" for all of it.
        node: the node that its labels name, "" for none.
        labels: all labels, which tell series apart.
        value: the value; NaN for one that there is not.
        time: seconds since 1970 that stand behind it, None for none.
    """

    name: str
    gpu: str
    instance: str
    node: str
    labels: tuple[tuple[str, str], ...]
    value: float
    time: float | None


@dataclasses.dataclass(frozen=True)
class Page:
    """What came of one request.

    Attributes:
        node: the node whose exporter was asked.
        url: what was asked.
        elapsed: seconds since the first page of this exporter.
        asked: seconds since 1970, by the clock of the pod that asked.
        failure: in which way no page came, "" where one did.
        why: the same in words.
        problem: why the page cannot be read, or was not told whole; "" where it can.
        samples: the values of what was asked for.
        others: names of further metrics of the exporter.
        key: of the line of evidence.
    """

    node: str
    url: str
    elapsed: float
    asked: float
    failure: str
    why: str
    problem: str
    samples: tuple[Sample, ...]
    others: tuple[str, ...]
    key: str

    @property
    def identities(self) -> tuple[str, ...]:
        """Return the names of its GPUs that no GPU of another node has."""
        every = (value for s in self.samples for key, value in s.labels if key.lower() in UNIQUE and value)
        return tuple(dict.fromkeys(every))

    @property
    def contradictory(self) -> tuple[str, ...]:
        """Return the metrics of which it has two values for the same labels: nobody knows which is right."""
        values: dict[tuple[str, tuple[tuple[str, str], ...]], set[str]] = {}
        for one in self.samples:
            values.setdefault((one.name, one.labels), set()).add(repr(one.value))
        return tuple(dict.fromkeys(name for (name, _), found in values.items() if len(found) > 1))

    @property
    def gpus(self) -> tuple[str, ...]:
        """Return the GPUs that it has values of."""
        return tuple(dict.fromkeys(sample.gpu for sample in self.samples if sample.gpu))

    @property
    def instances(self) -> tuple[tuple[str, str], ...]:
        """Return the parts of GPUs that it has values of."""
        return tuple(dict.fromkeys((s.gpu, s.instance) for s in self.samples if s.gpu and s.instance))


UNIQUE = frozenset({"uuid", "serial_number"})
"""Labels, in lower case, whose value only one GPU has; numbers and names of devices are the same on each node."""


@functools.cache
def table() -> tuple[Mapping[str, Any], ...]:
    """Return the shipped table of exporters."""
    return tuple(shipped.load(TABLE, FOLDER))


def asked(resource: str, required: Sequence[str]) -> Asked | None:
    """Return what is asked of the exporters of a resource's vendor; None where nobody knows names for it.

    Args:
        resource: the GPU resource.
        required: names that the profile asks for; empty for those of the table.
    """
    domain = resource.partition("/")[0]
    entry = next((one for one in table() if one["vendor"] == domain), None)
    if entry is None and not required:
        return None
    chosen = entry or UNKNOWN
    renamed = chosen.get("renamed") or {}

    def every(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(alias for name in names for alias in _aliases(name, renamed)))

    usual = {str(what): every(one["names"]) for what, one in chosen["metrics"].items()}
    rising = [name for one in chosen["metrics"].values() if one.get("rises") for name in every(one["names"])]
    return Asked(
        str(chosen["exporter"]),
        {name: every([name]) for name in required} or usual,
        tuple(rising),
        tuple(chosen["prefixes"]),
        {part: tuple(chosen[part]) for part in ("gpu", "instance", "node")},
        float(chosen["none"]),
    )


def _aliases(name: str, renamed: Mapping[str, str]) -> tuple[str, ...]:
    """Return a metric's name with the one that another release gives it."""
    former = [old for old, new in renamed.items() if new == name]
    return tuple(dict.fromkeys([name, *([renamed[name]] if name in renamed else []), *former]))


def pages(evidence: Evidence, wanted: Asked, given: Mapping[str, Any]) -> Mapping[str, tuple[Page, ...]]:
    """Return node -> the pages of its exporter, the first and the last, as the pod told that the run had ask."""
    cast = {str(one.get("uid")) for one in fields.items(fields.sub(given, "roles"), ROLE)}
    told: dict[tuple[str, str], list[payload_lines.Word]] = {}
    for word in payload_lines.words(evidence).of(EVENT):
        if cast and word.uid not in cast:
            continue
        told.setdefault((str(word.data.get("node")), str(word.data.get("which"))), []).append(word)
    found: dict[str, list[Page]] = {}
    for which in ("first", "last"):
        for (node, each), words in told.items():
            if each == which:
                found.setdefault(node, []).append(_page(node, words, wanted))
    return {node: tuple(each) for node, each in found.items()}


def _page(node: str, words: Sequence[payload_lines.Word], wanted: Asked) -> Page:
    first = words[0].data
    numbers = [word.number("part") for word in words]
    parts = words[0].number("parts") or 0
    problem = ""
    if numbers != list(range(1, parts + 1)):
        problem = f"of its {parts} parts {len(numbers)} were told"
    elif any(word.number("left_out") != 0 for word in words):
        problem = "lines of it are too long to be told"
    elapsed, when = _seconds(first.get("elapsed")), _seconds(first.get("asked"))
    if elapsed is None or when is None or elapsed < 0:
        problem = problem or "it does not say when it was asked"
    lines = [str(line) for word in words for line in _texts(word.data.get("lines"))]
    try:
        samples = tuple(_samples(lines, wanted))
    except (ValueError, KeyError, IndexError) as error:
        samples, problem = (
            (),
            problem or f"it is not in Prometheus' text format: {' '.join(str(error).split())}",
        )
    return Page(
        node,
        str(first.get("url") or ""),
        elapsed or 0.0,
        when or 0.0,
        str(first.get("failure") or ""),
        str(first.get("why") or ""),
        problem,
        samples,
        tuple(map(str, _texts(first.get("others")))),
        words[0].key,
    )


def _samples(lines: Sequence[str], wanted: Asked) -> Iterator[Sample]:
    """Yield the values of a page.

    Raises:
        ValueError: a line is not of the format.
    """
    looked_for = frozenset(wanted.names)
    for family in parser.text_string_to_metric_families("\n".join([*lines, ""])):
        for one in family.samples:
            # The parser ends the names of counters as OpenMetrics does.
            name = one.name if one.name in looked_for else one.name.removesuffix("_total")
            if name not in looked_for:
                continue
            labels = dict(one.labels)
            value = float(one.value)
            there = math.isfinite(value) and 0 <= value < wanted.none
            yield Sample(
                name,
                _label(labels, wanted.labels["gpu"]),
                _label(labels, wanted.labels["instance"]),
                _label(labels, wanted.labels["node"]),
                tuple(sorted(labels.items())),
                value if there else math.nan,
                None if one.timestamp is None else float(one.timestamp),
            )


def _label(labels: Mapping[str, str], names: Sequence[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _texts(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []


def _seconds(value: object) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]


def targets(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the nodes whose exporters were asked."""
    return tuple(map(str, _texts(fields.sub(given, "metrics").get("targets"))))
