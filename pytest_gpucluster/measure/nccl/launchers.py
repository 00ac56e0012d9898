"""What launchers and collectors put in front of a line, or into it: whose line it is, and a row without it."""

import re
from typing import NamedTuple

_POD = re.compile(r"\[pod/(?P<pod>[\w.-]+)/(?P<container>[\w.-]+)\]")
_RANK = re.compile(
    r"\[rank(?P<torch>\d{1,7})\]|\[(?:[\w@.-]{0,80},)?(?P<mpi>\d{1,7})\]<std(?:out|err)>|\[Rank (?P<watch>\d{1,7})\]"
)
_TAG = re.compile(
    r"\[[\w@.-]{0,80},?\d{1,12}(?:,\d{1,12})?\]<std(?:out|err)>:\s?|\[(?:default|rank)\d{1,12}\]:\s?"
)
_ANY_TAG = re.compile(
    r"\[[^\]\[]{1,80}\]:?|\([^()]{1,80}\):?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,:+Z-]*"
    r"|(?<![\w.-])(?=[\w.@/-]*[A-Za-z])[\w.@/-]{1,80}(?::\s|>\s|\s?\|\s)"
)
_GLOG = re.compile(r"\b[EWIF](?P<day>\d{4}) (?P<time>\d\d:\d\d:\d\d(?:\.\d{1,9})?)")


class Source(NamedTuple):
    """Whose line it is, as far as its tags tell."""

    rank: int = -1
    pod: str = ""
    container: str = ""


NOBODY = Source()


def source(text: str) -> Source:
    """Return whose line it is by its tags."""
    if "[" not in text:
        return NOBODY
    head = text[:400]
    pod, rank = _POD.search(head), _RANK.search(head)
    number = next((int(value) for value in rank.groups() if value), -1) if rank else -1
    return Source(number, pod["pod"] if pod else "", pod["container"] if pod else "")


def glog_time(text: str) -> str:
    """Return the time of a line of PyTorch as `10-05 09:33:21.1`, "" where it has none."""
    match = _GLOG.search(text[:400])
    return f"{match['day'][:2]}-{match['day'][2:]} {match['time']}" if match else ""


def without_known_tags(text: str) -> str:
    """Return a line without the tags of mpirun and torchrun, wherever they stand."""
    return _TAG.sub(" ", text)


def untagged(rest: str, before: str) -> str:
    """Return the columns of a row without the tags between them.

    A row is written in pieces, and a launcher puts the same tag in front of each: the one in front of the row.

    Args:
        rest: the columns.
        before: what stands in front of the row.
    """
    tag = before.strip()
    if tag and re.search(r"[^\d\s.]", tag):
        rest = rest.replace(tag, " ")
    return rest


def without_any_tag(rest: str) -> str:
    """Return the columns of a row without whatever looks like a tag or a time."""
    return _ANY_TAG.sub(" ", rest)
