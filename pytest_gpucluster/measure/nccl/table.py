"""The table of nccl-tests: rows in columns named by a header, tags of launchers inside rows, rows cut in the middle."""

import dataclasses
import functools
import math
import re

from pytest_gpucluster.measure import collective
from pytest_gpucluster.measure.nccl import launchers

_TYPES = (
    "float|half|double|bfloat16|int8|uint8|char|int32|uint32|int64|uint64|int|f8e4m3|f8e5m2|fp8_e4m3|fp8_e5m2"
)
_ROW = re.compile(
    rf"(?:^|[\s:\])>|])(?P<size>\d{{1,18}})\s+(?P<count>\d{{1,18}})\s+(?P<type>{_TYPES})(?=\s|$)(?P<rest>.*)$"
)
_PIECE = re.compile(rf"(?:^|[\s:\])>|])\d{{1,12}}\s+\d{{1,12}}\s+(?:{_TYPES})$")
_AVERAGE = re.compile(r"# ?Avg bus bandwidth\s*:\s*(?P<value>[-+.\deEna]+)(?P<rest>.*)")
_OUT = re.compile(r"# ?Out of bounds values\s*:\s*(?P<count>\d{1,12})\s*(?P<word>\w*)")
_RANK = re.compile(
    r"#\s+Rank\s+(?P<rank>\d{1,12})\s+(?:Group\s+\d{1,12}\s+)?Pid\s+(?P<pid>\d{1,12})\s+on\s+(?P<host>\S+)\s+device\s+(?P<device>\d{1,12})"
)
_STARTING = re.compile(r"Collective test starting: (?P<name>\w+)")
_WORDS = {"sum", "prod", "min", "max", "avg", "mulsum", "none", "all"}
_DEFAULT = ("time", "algbw", "busbw", "wrong", "time", "algbw", "busbw", "wrong")
_NUMBER = re.compile(r"[-+]?(?:\d{1,300}(?:[.,]\d{0,300})?|[.,]\d{1,300})(?:[eE][-+]?\d{1,4})?$")
_MANY = 100_000
_SLACK = 0.05
"""By how much a bandwidth may be above what its own time gives: a time of few microseconds is told with few digits."""


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One placement of a row: out-of-place or in-place."""

    time: float
    algbw: float
    busbw: float
    wrong: int | None
    """None: not checked."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One size."""

    size: int
    kind: str
    operation: str
    root: int | None
    sides: tuple[Side, ...]


class Table:
    """What nccl-tests printed."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.rows = 0
        self.torn = 0
        self.busbw_max: float | None = None
        self.average: float | None = None
        self.out_of_bounds: int | None = None
        self.failed = False
        self.below_minimum = False
        self.wrong: int | None = None
        self.zero = False
        self.not_finite = False
        self.odd: list[str] = []
        """Figures that contradict themselves."""
        self.test = ""
        self.bounds: dict[tuple[bool, bool], tuple[float, float]] = {}
        self.devices: set[tuple[int, int, str, int]] = set()
        self._columns: tuple[str, ...] = ()
        self._least: float | None = None

    @property
    def seen(self) -> bool:
        """Say whether there is anything of a table."""
        return bool(self.rows or self.devices) or self.average is not None or self.out_of_bounds is not None

    def read(self, text: str, *, clean: bool = True) -> bool:
        """Read a line; say whether it was of a table."""
        text = launchers.without_known_tags(text)
        if "#" in text and self._comment(text):
            return True
        row = _ROW.search(text)
        if row is None:
            if _PIECE.search(text):
                self.torn += 1
                return True
            return False
        parsed = self._row(row, text[: row.start("size")])
        if parsed is None:
            looks = _NUMBER.match((row["rest"].split() or ["0"])[-1]) is not None or not clean
            self.torn += 1 if looks or len(row["rest"].split()) > 2 else 0
            return True
        self._add(parsed)
        return True

    def _row(self, row: "re.Match[str]", before: str) -> Row | None:
        """Return a row, as it stands or without what launchers put between its columns."""
        rest = row["rest"]
        for columns in (rest, launchers.untagged(rest, before), launchers.without_any_tag(rest)):
            parsed = _parse(row["size"], row["type"], columns, self._columns)
            if parsed is not None:
                return parsed
        return None

    def _comment(self, text: str) -> bool:
        names = text.partition("#")[2].split()
        if "busbw" in names and "algbw" in names and names[0].startswith("size"):
            columns = [name.lstrip("#") for name in names[3:]]
            self._columns = tuple(columns)
            return True
        match = _AVERAGE.search(text)
        if match:
            value = _float(match["value"])
            self.average = value if value is not None and math.isfinite(value) else None
            self.not_finite |= self.average is None
            self.below_minimum |= "FAILED" in match["rest"]
            self.zero |= value == 0
            if value is not None:
                self._odd(_odd_average(value, self._least, self.busbw_max))
            return True
        match = _OUT.search(text)
        if match:
            self.out_of_bounds = max(self.out_of_bounds or 0, int(match["count"]))
            self.failed |= match["word"] == "FAILED"
            return True
        match = _RANK.search(text)
        if match:
            if len(self.devices) < _MANY:
                self.devices.add((int(match["rank"]), int(match["pid"]), match["host"], int(match["device"])))
            return True
        match = _STARTING.search(text)
        if match:
            self.test = match["name"]
            return True
        return False

    def _add(self, row: Row) -> None:
        self.rows += 1
        for side in row.sides:
            if not (math.isfinite(side.busbw) and math.isfinite(side.algbw) and math.isfinite(side.time)):
                self.not_finite = True
                continue
            self.busbw_max = max(self.busbw_max if self.busbw_max is not None else side.busbw, side.busbw)
            self.zero |= side.busbw == 0 and row.size > 0 and side.algbw >= 0.05
            if side.wrong is not None:
                self.wrong = (self.wrong or 0) + side.wrong
            self._bound(row, side)
            self._least = min(self._least if self._least is not None else side.busbw, side.busbw)
            self._odd(_odd(row, side))

    def _odd(self, why: str) -> None:
        if why and len(self.odd) < 10:
            self.odd.append(why)

    def _bound(self, row: Row, side: Side) -> None:
        """Narrow what the factor can be, by the digits that are printed."""
        if side.algbw <= 0 or side.busbw <= 0:
            return
        half = 0.0051
        low, high = (
            (side.busbw - half) / (side.algbw + half),
            (side.busbw + half) / max(side.algbw - half, 1e-9),
        )
        reduces = row.operation not in {"none", ""}
        key = (reduces, row.root is not None and row.root >= 0)
        before = self.bounds.get(key, (0.0, math.inf))
        after = (max(before[0], low), min(before[1], high))
        self.bounds[key] = after if after[0] <= after[1] else (low, high)

    def ranks(self) -> tuple[int, int] | None:
        """Return the fewest and the most ranks that the factor between bus and algorithm bandwidth allows."""
        found = [
            r for key, bound in self.bounds.items() if (r := _ranks(self.test, *key, *bound)) is not None
        ]
        return max(found, key=lambda r: r[0] - r[1]) if found else None

    def single_ranks(self) -> bool:
        """Say whether every process was a world of its own."""
        zeros = [device for device in self.devices if device[0] == 0]
        return self.zero or len(zeros) > 1


def _odd(row: Row, side: Side) -> str:
    """Return why figures cannot be, "" where they can: no bus moves more than twice what the algorithm does."""
    size = f"{row.size} bytes"
    if min(side.time, side.algbw, side.busbw) < 0 or (side.wrong or 0) < 0:
        return f"{size}: a figure is below zero"
    if row.size > 0 and side.time == 0 and side.algbw > 0:
        return f"{size}: in zero time"
    given = row.size / side.time / 1e3 if side.time > 0 else math.inf
    if side.algbw > given * (1 + _SLACK) + 0.011:
        return f"{size}: {side.algbw:g} GB/s, but {side.time:g} us give {given:.4g}"
    if max(side.algbw, side.busbw) > collective.BEYOND:
        return f"{size}: {max(side.algbw, side.busbw):g} GB/s are beyond any link"
    if side.busbw > 2 * side.algbw + 0.02:
        return f"{size}: a bus bandwidth of {side.busbw:g} where {side.algbw:g} GB/s went through"
    return ""


def _odd_average(value: float, least: float | None, most: float | None) -> str:
    """Return why an average over rows cannot be, "" where it can."""
    if value < 0 or value > collective.BEYOND:
        return f"an average bus bandwidth of {value:g} GB/s"
    if least is None or most is None or least - 0.02 <= value <= most + 0.02:
        return ""
    return f"an average bus bandwidth of {value:g} GB/s over rows of {least:g} to {most:g}"


def _ranks(test: str, reduces: bool, rooted: bool, low: float, high: float) -> tuple[int, int] | None:
    if (
        rooted
        or any(word in test for word in ("broadcast", "sendrecv", "hypercube"))
        or test.startswith("reduce_perf")
    ):
        return None
    twice = test.startswith("all_reduce") or (not test and reduces and high > 1)
    if not twice and not test and not reduces and low > 0.9999:
        return None
    scale = 2.0 if twice else 1.0
    # factor = scale * (n - 1) / n, so n = scale / (scale - factor)
    if low >= scale:
        return None
    fewest = scale / (scale - low)
    most = scale / (scale - high) if high < scale else math.inf
    first = math.ceil(fewest - 1e-6)
    last = math.floor(most + 1e-6) if math.isfinite(most) else 10**9
    if first > last:
        nearest = round((fewest + most) / 2) if math.isfinite(most) else 0
        return (nearest, nearest) if nearest >= 1 else None
    return first, last


def likely(bounds: tuple[int, int]) -> int:
    """Return the number of ranks within bounds that people use: the only one, or a power of two."""
    first, last = bounds
    if first == last:
        return first
    power = 1
    while power < first:
        power *= 2
    return power if power <= last else first


def _float(text: str) -> float | None:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return None


@functools.lru_cache(maxsize=1000)
def _parse(size: str, kind: str, rest: str, columns: tuple[str, ...]) -> Row | None:
    tokens = rest.split()
    operation, root = "", None
    names = list(columns)
    if names:
        if names[0] == "redop":
            names.pop(0)
            if not tokens or tokens[0] not in _WORDS:
                return None
            operation = tokens.pop(0)
        if names and names[0] == "root":
            names.pop(0)
            if not tokens or not re.fullmatch(r"-?\d{1,12}", tokens[0]):
                return None
            root = int(tokens.pop(0))
    else:
        if tokens and tokens[0] in _WORDS:
            operation = tokens.pop(0)
        numeric = 0
        while numeric < len(tokens) and (
            _NUMBER.match(tokens[numeric]) or tokens[numeric] in {"N/A", "nan", "inf", "-nan"}
        ):
            numeric += 1
        names = list(_DEFAULT)
        if numeric > len(names) and re.fullmatch(r"-?\d{1,12}", tokens[0]):
            root = int(tokens.pop(0))
    if len(tokens) < len(names):
        return None
    sides: list[Side] = []
    values: dict[str, float] = {}
    wrong: int | None = None
    for name, word in zip(names, tokens, strict=False):
        key = "time" if name in {"time", "cputime"} else name
        if key == "time" and "busbw" in values:
            if not {"time", "algbw"} <= values.keys():
                return None  # its header is damaged: which figure is which is not known
            sides.append(Side(values["time"], values["algbw"], values["busbw"], wrong))
            values, wrong = {}, None
        if key in {"wrong", "error"}:
            if word != "N/A" and key == "wrong":
                count = _float(word)
                if count is None:
                    return None
                wrong = int(count) if math.isfinite(count) else 1
            elif word != "N/A" and _float(word) is None:
                return None
            continue
        number = _float(word)
        if number is None:
            if key in {"time", "algbw", "busbw"} and word != "N/A":
                return None
            continue
        values[key] = number
    if {"time", "algbw", "busbw"} <= values.keys():
        sides.append(Side(values["time"], values["algbw"], values["busbw"], wrong))
    return Row(int(size), kind, operation, root, tuple(sides)) if sides else None
