"""What is wrong with the health of nodes, or keeps it from being judged; and what follows from that."""

import dataclasses
from collections.abc import Mapping, Sequence

from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause, Finding, Number


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing about a node.

    Attributes:
        text: in words.
        causes: what it may come from.
        open: it leaves the row undecided; else it is a violation.
        key: of the line of evidence.
    """

    text: str
    causes: tuple[Cause, ...]
    open: bool = False
    key: str = ""


def decided(
    of: wording.Findings, found: Mapping[str, Sequence[Problem]], numbers: tuple[Number, ...]
) -> Finding | None:
    """Return what follows from the problems of nodes: a violation before what is open; None if there are none.

    Args:
        of: builds the finding.
        found: node -> its problems.
        numbers: what a failure tells.
    """
    for open_ in (False, True):
        chosen = [(name, one) for name, each in found.items() for one in each if one.open is open_]
        if chosen:
            build = of.inconclusive if open_ else of.fail
            return build(
                wording.listed([f"{name}: {one.text}" for name, one in chosen], 3),
                *dict.fromkeys(cause for _, one in chosen for cause in one.causes),
                violation=not open_,
                where=wording.shown(list(dict.fromkeys(f"Node/{name}" for name, _ in chosen))),
                evidence=tuple(dict.fromkeys(one.key for _, one in chosen if one.key)),
                numbers=() if open_ else numbers,
            )
    return None
