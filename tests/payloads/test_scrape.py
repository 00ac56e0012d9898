"""The payload that asks exporters of GPU metrics, before real HTTP servers that answer well, badly or not at all."""

import argparse
import contextlib
import http.server
import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payloads import scrape
from tests import amount

COUNTER = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
LINE = COUNTER + '{{gpu="0",UUID="GPU-a",pod="x}}y"}} {}'


@contextlib.contextmanager
def serving(answer):
    """Serve pages on a port of this machine; `answer(handler, number of the request)` writes one."""
    count = iter(range(1_000_000))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            with contextlib.suppress(OSError):  # The one who asked may have gone.
                answer(self, next(count))

        def log_message(self, *_words):
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def paged(*bodies):
    """Answer the first request with the first body, and so on; the last one stays."""

    def answer(handler, number):
        body = bodies[min(number, len(bodies) - 1)].encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def asked(monkeypatch, url, fresh=0.2):
    """Return the lines that the payload says of one exporter."""
    told = []
    monkeypatch.setattr(scrape, "say", lambda event, **fields: told.append({"event": event, **fields}))
    args = argparse.Namespace(names=f"{COUNTER},OTHER", counters=COUNTER, prefixes="DCGM_", fresh=fresh)
    scrape.scrape("n1", url, args)
    return told


def test_it_ends_when_every_counter_has_moved(monkeypatch):
    """Not before: the second page is the same as the first one."""
    pages = [LINE.format(5) + "\nNOT_ASKED 1\n", LINE.format(5) + "\n", LINE.format(6) + "\n"]
    with serving(paged(*pages)) as url:
        first, last = asked(monkeypatch, url, fresh=30 * scrape.TRIES / 1000)
    assert [one["lines"] for one in (first, last)] == [[LINE.format(5)], [LINE.format(6)]]
    assert (first["which"], last["which"], first["elapsed"]) == ("first", "last", 0.0)
    assert last["elapsed"] > 0


def test_a_counter_that_stands_still_is_watched_for_as_long_as_it_may(monkeypatch):
    """The last page is of a moment at which the time is over; a time behind the value is not the value."""
    with serving(paged(*(LINE.format(f"5 {n}") for n in range(1, 400)))) as url:
        _, last = asked(monkeypatch, url)
    assert last["elapsed"] >= 0.2


def test_others_of_the_exporter_are_named(monkeypatch):
    """So that a metric that was renamed is found."""
    with serving(
        paged(LINE.format(1) + "\n# TYPE DCGM_NEW gauge\nDCGM_NEW 1\nup 1\n", LINE.format(2))
    ) as url:
        first, _ = asked(monkeypatch, url)
    assert first["others"] == ["DCGM_NEW"]


def _error(handler, _number):
    handler.send_error(503)


def _silent(handler, _number):
    # Until the one who asked hangs up.
    handler.connection.recv(1)


def _dribbling(handler, _number):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"A 1\n")
        time.sleep(0.01)


def _cut(handler, _number):
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b"A 1\n")


def _nonsense(handler, _number):
    handler.wfile.write(b"\x00\x01\x02\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "failure"),
    [(_error, "status"), (_silent, "hangs"), (_dribbling, "hangs"), (_nonsense, "broken")],
)
def test_an_exporter_without_a_page_is_told_by_kind(monkeypatch, answer, failure):
    """In time, whatever it does."""
    with serving(answer) as url:
        first, last = asked(monkeypatch, url, fresh=0.05)
    assert (first["failure"], last["failure"], bool(first["why"])) == (failure, failure, True)


def test_a_page_that_is_cut_is_no_page(monkeypatch):
    """The server announced more than came."""
    with serving(_cut) as url:
        first, _ = asked(monkeypatch, url, fresh=0.05)
    assert first["failure"] == "broken"


def test_nobody_listens(monkeypatch):
    """A port that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        first, _ = asked(monkeypatch, f"http://127.0.0.1:{free.getsockname()[1]}/metrics", fresh=0.05)
    assert first["failure"] == "refused"


def test_an_exporter_that_comes_up_is_watched_from_then_on(monkeypatch):
    """Its first page is the first one that came."""

    def late(handler, number):
        (_error if number < 2 else paged(LINE.format(number)))(handler, number)

    with serving(late) as url:
        first, last = asked(monkeypatch, url, fresh=1.0)
    assert (first["failure"], first["lines"]) == ("", [LINE.format(2)])
    assert (last["failure"], last["lines"]) == ("", [LINE.format(3)])


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=5000), max_size=30)
)
@amount.examples(60)
def test_lines_come_whole_and_in_order_in_short_writes(lines):
    """What is too long for one write is counted."""
    cut, left_out = scrape.parts(lines)
    together = [line for part in cut for line in part]
    assert len(together) + left_out == len(lines)
    assert together == [line for line in lines if line in together]
    assert cut
