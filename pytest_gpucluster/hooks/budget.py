"""The budget of GPU-seconds: the cheapest scenarios first, and what is beyond it is named and never green."""

from collections.abc import Iterable, Iterator, Mapping

from pytest_gpucluster.hooks.collection import cost
from pytest_gpucluster.requirement import Requirement

REASON = "budget"
"""First word of the reason in the record."""


def beyond(requirements: Iterable[Requirement], limit: float) -> dict[str, str]:
    """Return the scenarios that a budget leaves out, each with why.

    A scenario's price is what it declares; those that hold no GPU are free. The cheapest go first, and in the order
    of their names where they cost the same.

    Args:
        requirements: what is selected.
        limit: GPU-seconds that may be spent.
    """
    prices = {requirement.scenario.name: cost(requirement)[0] for requirement in requirements}
    spent = 0.0
    left_out: dict[str, str] = {}
    for name, price in sorted(prices.items(), key=lambda one: (one[1], one[0])):
        if price and (left_out or spent + price > limit):
            left_out[name] = (
                f"{REASON}: scenario {name} takes {price:g} GPU-seconds, {max(limit - spent, 0.0):g} of {limit:g} "
                "are left (--gpucluster-max-gpu-seconds)"
            )
        else:
            spent += price
    return left_out


def lines(left_out: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each requirement that was not run for want of budget: id -> why."""
    for requirement_id, why in left_out.items():
        yield f"{requirement_id}: not run: {why}"
