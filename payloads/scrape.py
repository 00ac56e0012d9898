"""What exporters of GPU metrics answer, twice: at once, and when their counters have moved or the time for it is over.

Standard library only. Prints the lines of the wanted metrics as they came, in parts; lines as in `lines.py`. Whoever
reads them understands the format: here it is only seen whether the lines of a counter have all changed.
"""

import argparse
import concurrent.futures
import dataclasses
import http.client
import json
import socket
import threading
import time
import urllib.parse

from lines import digits, say

MOST_BYTES = 32 << 20
"""Of one page; a longer one is no page of metrics."""
PART = 3000
"""Bytes of lines that one write carries."""
OTHERS = 40
"""Further names that are told, so that a renamed metric is found."""
ANSWER = 10.0
"""Seconds in which a page must have come, as Prometheus gives it; less where values must be renewed sooner."""
TRIES = 10
"""Pages that are asked for in the time within which values must be renewed."""
SAYING = threading.Lock()


class Failure(Exception):  # noqa: N818 (what came in place of a page)
    """No page came; the first argument says in which way, the second in words."""


@dataclasses.dataclass(frozen=True)
class Look:
    """What came of one request: seconds since 1970 when it was made, in which way it failed and why, or lines."""

    asked: float
    failure: str = ""
    why: str = ""
    lines: list[str] = dataclasses.field(default_factory=list)
    others: list[str] = dataclasses.field(default_factory=list)


def page(url: str, seconds: float) -> bytes:
    """Return the page behind a URL.

    Raises:
        Failure: `unreachable`, `refused`, `hangs`, `status`, `broken` or `long`.
    """
    parsed = urllib.parse.urlsplit(url)
    until = time.monotonic() + seconds
    connection = http.client.HTTPConnection(parsed.hostname or "", parsed.port, timeout=seconds)
    try:
        try:
            connection.connect()
        except ConnectionRefusedError as error:
            raise Failure("refused", str(error)) from None
        except OSError as error:
            raise Failure("unreachable", str(error)) from None
        try:
            connection.request("GET", parsed.path or "/", headers={"Accept": "text/plain;version=0.0.4"})
            answer = connection.getresponse()
            body = bytearray()
            while chunk := answer.read1(1 << 16):
                body += chunk
                if len(body) > MOST_BYTES:
                    raise Failure("long", f"more than {MOST_BYTES} bytes")
                left = until - time.monotonic()
                if left <= 0:
                    raise Failure("hangs", f"no whole page within {seconds:g} s")
                if connection.sock is not None:
                    connection.sock.settimeout(left)
        except TimeoutError:
            raise Failure("hangs", f"no whole page within {seconds:g} s") from None
        except (http.client.HTTPException, OSError) as error:
            raise Failure("broken", f"{type(error).__name__}: {error}") from None
        if answer.length:
            raise Failure("broken", f"{answer.length} bytes that were announced did not come")
        if answer.status != http.client.OK:
            raise Failure("status", f"HTTP {answer.status}")
        return bytes(body)
    finally:
        connection.close()


def name_of(line: str) -> str:
    """Return the metric of a sample or of a comment that states its type, "" for other lines."""
    words = line.split(None, 3)
    if words[:2] == ["#", "TYPE"] and len(words) > 2:
        return words[2]
    return "" if not words or line.startswith("#") else line.partition("{")[0].split(None, 1)[0]


def wanted(text: str, names: set[str]) -> list[str]:
    """Return the lines about some metrics."""
    return [line for line in text.splitlines() if name_of(line) in names]


def others(text: str, names: set[str], prefixes: tuple[str, ...]) -> list[str]:
    """Return names of further metrics of the same exporter."""
    found = dict.fromkeys(name_of(line) for line in text.splitlines())
    return [name for name in found if name.startswith(prefixes) and name not in names][:OTHERS]


def counted(lines: list[str], counters: set[str]) -> dict[str, str]:
    """Return the samples of counters: all before the value -> the value with what follows."""
    found = {}
    for line in lines:
        if not line.startswith("#") and name_of(line) in counters:
            head, brace, rest = line.rpartition("}")
            name, _, value = line.partition(" ") if not brace else (head, "", rest.strip())
            # A time of the sample behind its value is no value.
            found[name] = value.split()[0] if value.split() else ""
    return found


def moved(first: dict[str, str], now: dict[str, str]) -> bool:
    """Report whether every sample of a counter has another value than before."""
    return bool(first) and all(name in now and now[name] != value for name, value in first.items())


def parts(lines: list[str]) -> tuple[list[list[str]], int]:
    """Return lines by the writes that carry them, and how many are too long for one."""
    found: list[list[str]] = [[]]
    size = left_out = 0
    for line in lines:
        length = len(json.dumps(line)) + 1
        if length > PART:
            left_out += 1
            continue
        if size + length > PART:
            found.append([])
            size = 0
        found[-1].append(line)
        size += length
    return found, left_out


def tell(node: str, url: str, which: str, elapsed: float, found: Look) -> None:
    """Say what came of one request, in as many writes as its lines take."""
    cut, left_out = parts(found.lines)
    for number, each in enumerate(cut, 1):
        say(
            "scraped",
            node=node,
            url=url,
            which=which,
            elapsed=digits(elapsed),
            asked=found.asked,
            failure=found.failure,
            why=found.why,
            part=number,
            parts=len(cut),
            lines=each,
            left_out=left_out,
            others=found.others if number == 1 else [],
        )


def look(url: str, args: argparse.Namespace) -> Look:
    """Ask for a page once."""
    names, prefixes = set(args.names.split(",")), tuple(filter(None, args.prefixes.split(",")))
    asked = time.time()
    try:
        raw = page(url, min(ANSWER, args.fresh))
    except Failure as failure:
        kind, why = failure.args
        return Look(asked, str(kind), " ".join(str(why).split())[:200])
    text = raw.decode("utf-8", "replace")
    return Look(asked, lines=wanted(text, names), others=others(text, names, prefixes))


def scrape(node: str, url: str, args: argparse.Namespace) -> None:
    """Ask one exporter for its page, then again until its counters have moved or the time is over."""
    counters = set(args.counters.split(","))
    begun = time.monotonic()
    first = last = look(url, args)
    since = at = 0.0
    while at - since < args.fresh and not moved(
        counted(first.lines, counters), counted(last.lines, counters)
    ):
        time.sleep(max(0.0, begun + at + args.fresh / TRIES - time.monotonic()))
        at = time.monotonic() - begun
        last = look(url, args)
        if first.failure and not last.failure:
            first, since = last, at  # It was not up yet: its counters are watched from here on.
    with SAYING:
        tell(node, url, "first", 0.0, first)
        tell(node, url, "last", at - since, last)


def main() -> int:
    """Ask all exporters at once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", action="append", required=True, help="NODE=URL of an exporter; repeat it")
    parser.add_argument("--names", required=True, help="metrics whose lines are told, by commas")
    parser.add_argument("--counters", required=True, help="those of them that rise by themselves, by commas")
    parser.add_argument("--prefixes", default="", help="how names of the exporter's metrics begin, by commas")
    parser.add_argument("--fresh", type=float, required=True, help="seconds within which values are renewed")
    args = parser.parse_args()
    socket.setdefaulttimeout(ANSWER)
    targets = [each.partition("=")[::2] for each in args.target]
    with concurrent.futures.ThreadPoolExecutor(min(32, len(targets))) as pool:
        for done in [pool.submit(scrape, node, url, args) for node, url in targets]:
            done.result()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
