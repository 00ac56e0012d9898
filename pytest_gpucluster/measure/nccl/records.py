"""Records of NCCL in a line of text, whatever launchers, collectors and terminals wrapped around them.

A record begins at `host:pid:tid [device] (file:line)? NCCL LEVEL`, wherever that stands: prefixes of launchers and
time stamps of any shape need no list. Lines of several processes may be glued, and a record may be cut anywhere.
"""

import dataclasses
import json
import re
from collections.abc import Iterator

from pytest_gpucluster.measure.nccl import line_patterns

RECORD = re.compile(
    r"(?<![\w%-])(?P<host>[\w%-]{1,255}+):(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) \[(?P<dev>-?\d{1,6})\] "
    r"(?:(?P<file>[^\s\[\]]{1,300}:\d{1,7}) )?(?:\((?P<function>[^()]{1,200})\) )?NCCL (?P<level>[A-Z]+)(?: |$)"
)
_HEADLESS = re.compile(
    r"(?:^|[\s\]:>|)])(?:\[(?P<dev>-?\d{1,6})\] )?(?:(?P<file>[^\s\[\]]{1,300}:\d{1,7}) )?NCCL "
    r"(?P<level>INFO|WARN|ABORT) (?P<text>\S.*)$"
)
_MESSAGE = re.compile(
    r"(?:^|[\s\]:>|)])(?P<text>(?:Channel|Ring) \d{1,6}(?:/\d{1,6})? : \d{1,7}(?:\[\w+\])? -> .*)$"
)
_CUT_HEAD = re.compile(
    r"(?<![\w%-])[\w%-]{1,255}:\d{1,12}:\d{1,12} \[-?\d{1,12}\](?: (?:N(?:C(?:C(?:L(?: [A-Z]{0,4})?)?)?)?)?)?$"
)
_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])|(?:[\u2400\u241b]|#033)\[[0-9;]*m"
)
_FOLDED = re.compile(r"\s*\[repeated \d{1,12}x across cluster\]")
_CLOCK = re.compile(r"(?P<day>\d{4}[-/]\d\d[-/]\d\d)[ T](?P<time>\d\d:\d\d:\d\d(?:[.,]\d{1,12})?)")
_STUCK_TIME = re.compile(r"\d\d(?:[.,]\d{1,12})?(?=[A-Za-z])")
_DEPTH = 6


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One message of NCCL.

    Attributes:
        host: as printed, without what is glued in front; begins with `?` where that could not be told.
        pid: process.
        device: CUDA device that was current in the thread: no rank.
        level: INFO, WARN, ...
        where: file and line of a warning.
        text: the message.
        clean: whether nothing but the end of the line ended it; else it may be cut.
        stamp: date and time in front of it, as far as there is one that sorts.
        headless: whether host and process were stripped from it, so that nobody knows who printed it.
    """

    host: str
    pid: int
    device: int
    level: str
    where: str
    text: str
    clean: bool
    stamp: str = ""
    headless: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """What a line of text held.

    Attributes:
        text: the line without colours.
        records: messages of NCCL.
        head: what stood in front of the first record, or the whole line where there is none.
        torn: records of which only a piece without its head, or a head without its text, is there.
        folded: whether a launcher says that it folded similar lines.
        clean: whether the line ended.
    """

    text: str
    records: tuple[Record, ...]
    head: str
    torn: int
    folded: bool
    clean: bool


def texts(raw: bytes) -> Iterator[str]:
    """Return the texts of a line of bytes: of collectors that write JSON, the strings inside."""
    if b"\0" in raw:
        raw = raw.replace(b"\0", b"")
    text = raw.decode("utf-8", "replace")
    at = text.find('{"')
    if at >= 0:
        inner = _inside(text[at:])
        if inner is not None:
            for string in inner:
                yield from _pieces(string)
            return
    yield from _pieces(text)


def _pieces(text: str) -> Iterator[str]:
    for piece in re.split(r"[\r\n]+", text):
        if piece:
            yield piece


def _inside(text: str) -> list[str] | None:
    """Return the strings of a JSON object that hold more than a word; None where it is none."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    found: list[str] = []
    layer: list[object] = [value]
    for _ in range(_DEPTH):
        following: list[object] = []
        for one in layer:
            if isinstance(one, str):
                found.append(one)
            elif isinstance(one, dict):
                following += one.values()
            elif isinstance(one, list):
                following += one
        layer = following
    return [string for string in found if " " in string]


def read(text: str, *, clean: bool) -> Read:
    """Take a line of text apart."""
    if "\x1b" in text or "\u241b" in text or "#033[" in text:
        text = _ANSI.sub("", text)
    text = text.rstrip()
    folded = "x across cluster" in text and _FOLDED.search(text) is not None
    if folded:
        text = _FOLDED.sub("", text)
    if text.count("NCCL ") == 1:
        first = RECORD.search(text)
        found = [first] if first else []
    else:
        found = list(RECORD.finditer(text))
    if not found:
        return _without_head(text, folded=folded, clean=clean)
    records: list[Record] = []
    torn = 0
    host = _first_host(text, found[0])
    stamp = _stamp(text[: found[0].start()])
    for match, following in zip(found, [*found[1:], None], strict=True):
        body = text[match.end() : following.start() if following else len(text)]
        next_host = ""
        if following:
            body, next_host = _unglue(body, following["host"])
            torn += 1 if _CUT_HEAD.search(body) else 0
        records.append(
            Record(
                host,
                int(match["pid"]),
                int(match["dev"]),
                match["level"],
                match["file"] or "",
                _unquoted(body, text, match.start()),
                clean and following is None,
                stamp,
            )
        )
        host = next_host
    return Read(text, tuple(records), text[: found[0].start()], torn, folded, clean)


def _without_head(text: str, *, folded: bool, clean: bool) -> Read:
    """Take a line apart in which no host and process stand: they were stripped, or the line was cut in front."""
    match = _HEADLESS.search(text) if "NCCL " in text else None
    if match is None:
        # Only a whole connection line is known by its text alone.
        match = _MESSAGE.search(text) if " via " in text else None
        if match is None or line_patterns.channel(match["text"], clean=clean) is None:
            return Read(text, (), text, 0, folded, clean)
    parts = match.groupdict()
    record = Record(
        "", -1, int(parts.get("dev") or -1), parts.get("level") or "INFO", parts.get("file") or "",
        _unquoted(match["text"], text, match.start()), clean, _stamp(text[: match.start()]), headless=True,
    )  # fmt: skip
    return Read(text, (record,), text[: match.start()], 0, folded, clean)


def _unglue(body: str, token: str) -> tuple[str, str]:
    """Tell the end of a record from the host name of the next one, where no line feed stands between them."""
    whole = body + token
    end = line_patterns.end_of_channel(whole)
    if end is not None and len(body) <= end < len(whole):
        return whole[:end], whole[end:]
    return body, f"?{token}"


def _first_host(text: str, match: "re.Match[str]") -> str:
    """Return the host of a line's first record, without a time of day that a format glued to it."""
    host = match["host"]
    before = text[: match.start()]
    if before[-1:] in {":", ".", ","} and before[-2:-1].isdigit():
        stuck = _STUCK_TIME.match(host)
        if stuck:
            return host[stuck.end() :]
        if before[-1] in ".,":
            return host.lstrip("0123456789") or host
    return host


def _stamp(before: str) -> str:
    match = _CLOCK.search(before)
    return f"{match['day'].replace('/', '-')} {match['time'].replace(',', '.')}" if match else ""


def _unquoted(body: str, text: str, start: int) -> str:
    """Take off the quote with which a collector closed the text, if it opened one in front of the record."""
    if (body.endswith('"') and text.count('"', 0, start) % 2 == 1) or (
        body.endswith("'") and text.count("'", 0, start) % 2 == 1
    ):
        body = body[:-1].removesuffix("\\n")
    return body.rstrip()
