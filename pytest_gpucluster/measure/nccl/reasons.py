"""What speaks against a pass: violations, and what was not seen; words that texts about them share."""

import dataclasses
from collections.abc import Iterable, Sequence

from pytest_gpucluster.measure.nccl.advice import Advice
from pytest_gpucluster.measure.nccl.facts import Facts

MANY = 8


@dataclasses.dataclass(frozen=True)
class Reason:
    """One thing that speaks against a pass.

    Attributes:
        decisive: whether it is a violation; else something that was not seen.
        text: what was seen, with ranks and hosts.
        advice: causes and fixes, likeliest first.
    """

    decisive: bool
    text: str
    advice: tuple[Advice, ...] = ()


def wrong(text: str, why: Iterable[Advice]) -> Reason:
    """Return a violation."""
    return Reason(decisive=True, text=text, advice=tuple(why))


def unseen(text: str, why: Iterable[Advice]) -> Reason:
    """Return something without which nothing passes."""
    return Reason(decisive=False, text=text, advice=tuple(why))


def listed(ranks: Sequence[int], facts: Facts) -> str:
    """Return ranks with their hosts, the first ones by name."""
    shown = ", ".join(facts.where(rank) for rank in ranks[:MANY])
    return shown + (f" and {len(ranks) - MANY} more" if len(ranks) > MANY else "")


def few(names: Sequence[str]) -> str:
    """Return names, the first ones."""
    shown = [name or "?" for name in names[:MANY]]
    return (
        ", ".join(shown) + (f" and {len(names) - MANY} more" if len(names) > MANY else "") if shown else "?"
    )


def networks(names: Sequence[str]) -> str:
    """Return networks as connection lines have them."""
    return ", ".join(f"NET/{name}" for name in names)
