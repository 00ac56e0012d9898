"""A body that never ends takes neither the memory nor the time of a run."""

import itertools

import pytest

from pytest_gpucluster.kube import bounded, connection, errors, stream

PIECE = b"x" * 1024 * 1024


class Response:
    """A response whose body comes in pieces, perhaps without end."""

    def __init__(self, pieces, status=200):
        """Take the pieces."""
        self.pieces = iter(pieces)
        self.status = status
        self.headers = {}
        self.chunked = False
        self.ended = []

    def read(self, _amount):
        """Return the next piece."""
        return next(self.pieces, b"")

    read1 = read

    def close(self):
        """Give the connection up."""
        self.ended.append("closed")

    def release_conn(self):
        """Give the connection back."""
        self.ended.append("released")


def test_a_body_that_ends_is_returned_whole():
    """Its connection can be used again."""
    found = Response([b"ab", b"c"])
    assert bounded.read(found, lambda: 0.0, most=10) == b"abc"
    assert found.ended == ["released"]


def test_a_body_without_end_is_given_up():
    """After so many bytes; its connection is closed."""
    found = Response(itertools.repeat(PIECE))
    with pytest.raises(bounded.Endless, match="longer than 4 MiB"):
        bounded.read(found, lambda: 0.0, most=4 * 2**20)
    assert found.ended == ["closed"]


def test_a_body_that_drips_is_given_up():
    """Each piece is in time, and the whole would never be."""
    seconds = itertools.count(step=10.0)
    found = Response(itertools.repeat(b"x"))
    with pytest.raises(bounded.Endless, match="took more than 300 s"):
        bounded.read(found, lambda: next(seconds), most=2**20)
    assert found.ended == ["closed"]


def test_of_a_log_the_beginning_is_returned():
    """What a container wrote is not refused for its length."""
    found = Response(itertools.repeat(PIECE))
    assert len(bounded.read(found, lambda: 0.0, most=1000, cut=True)) == 1000


def opened(monkeypatch, response):
    """Return a connection that is answered with a response."""
    made = connection.Connection.at("http://127.0.0.1:1")
    monkeypatch.setattr(made, "_send", lambda _ask, **_more: response)
    return made


def test_an_answer_without_end_is_one_line(monkeypatch):
    """It names what was asked for."""
    monkeypatch.setattr(bounded, "MOST", 2**20)
    ask = connection.Ask("list", "Pod", "GET", "/api/v1/pods", "list pods")
    with pytest.raises(errors.EnvironmentProblem, match="the answer to list pods is longer than 1 MiB"):
        opened(monkeypatch, Response(itertools.repeat(PIECE))).call(ask)


@pytest.mark.parametrize("how", ["call", "stream"])
def test_an_error_without_end_is_an_error(monkeypatch, how):
    """Its first words are read."""
    made = opened(monkeypatch, Response(itertools.repeat(PIECE), 403))
    ask = connection.Ask("list", "Pod", "GET", "/api/v1/pods", "list pods")
    with pytest.raises(errors.ApiError) as caught:
        made.call(ask) if how == "call" else made.stream(ask, read=1.0)
    assert caught.value.code == 403
    assert len(str(caught.value)) < 1100  # the message, and what was left out of it


def test_brackets_without_end_are_no_answer(monkeypatch):
    """They would take the stack of a parser."""
    ask = connection.Ask("list", "Pod", "GET", "/api/v1/pods", "list pods")
    with pytest.raises(errors.EnvironmentProblem, match="no JSON"):
        opened(monkeypatch, Response([b"[" * 1_000_000])).call(ask)


def test_a_line_without_end_comes_in_pieces():
    """A program may print without ever ending a line."""
    read = stream.Stream(Response(itertools.repeat(b"x" * 65536)), None).lines(text=True)
    lines = list(itertools.islice(read, 3))
    assert all(0 < len(line) <= stream.LONGEST_LINE + 65536 for line in lines)
    read.close()


def test_a_message_without_end_ends_the_watch(monkeypatch):
    """It is as broken as one that was cut."""
    monkeypatch.setattr(stream, "LONGEST_MESSAGE", 2**20)
    read = stream.Stream(Response(itertools.repeat(PIECE)), lambda error: errors.Unreachable(str(error)))
    with pytest.raises(errors.Unreachable, match="more than 1 MiB"):
        next(read.lines())
