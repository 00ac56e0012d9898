"""The budget of a run, GPU-seconds and nodes: the cheapest first, and what is beyond it is named and never green."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpucluster.hooks import site_tests, state
from pytest_gpucluster.plain import plurals
from pytest_gpucluster.requirement import AREAS, Requirement

if TYPE_CHECKING:
    from pytest_gpucluster.profile import Profile

REASON = "budget"
"""First word of the reason in the record."""
UNKNOWN = f"{REASON}: the test does not declare its needs: mark it needs(nodes=..., gpus=..., seconds=...)"


def keep(
    session: pytest.Session,
    chosen: Sequence[Requirement],
    cases: Mapping[str, site_tests.SiteCase],
    profile: "Profile",
    *,
    gpu_seconds: float | None,
    nodes: int | None,
) -> None:
    """Take what is beyond the budget out of the run, and remember it as not run.

    Args:
        session: its items are what is selected.
        chosen: the rows among them.
        cases: tests of the site's own among them.
        profile: what is declared of the cluster.
        gpu_seconds: GPU-seconds that may be spent; None for any.
        nodes: nodes that may be used at the same time; None for any.
    """
    chosen, _ = applying(chosen, profile)
    uses = {f"scenario {row.scenario.name}": nodes_of(row, profile) for row in chosen}
    uses |= {case.scenario: case.needs.nodes for case in cases.values()}
    out = {} if nodes is None else too_wide(uses, nodes)
    prices = {f"scenario {row.scenario.name}": cost(row)[0] for row in chosen}
    prices |= {case.scenario: case.needs.gpu_seconds for case in cases.values() if case.needs.declared}
    if gpu_seconds is not None:
        out |= beyond({name: price for name, price in prices.items() if name not in out}, gpu_seconds)
    out |= {case.scenario: UNKNOWN for case in cases.values() if not case.needs.declared}
    gone = [item for item in session.items if _price_of(item) in out]
    if not gone:
        return
    selection = state.selection_of(session.config)
    taken = {id(item) for item in gone}
    session.items[:] = [item for item in session.items if id(item) not in taken]
    session.testscollected = len(session.items)
    session.config.hook.pytest_deselected(items=gone)
    for item in gone:
        requirement, why = state.declared(item), out[_price_of(item)]
        if requirement is not None:
            selection.left_out[requirement.id] = why
            selection.deselected[requirement.id] = (requirement, why)
        else:
            selection.site_left_out[item.nodeid] = why
    selection.selected = [one for one in selection.selected if one not in selection.left_out]


def _price_of(item: pytest.Item) -> str:
    """Return the key under which the price of an item stands, "" for one that has none."""
    requirement, case = state.declared(item), item.stash.get(site_tests.CASE, None)
    if requirement is not None:
        return f"scenario {requirement.scenario.name}"
    return case.scenario if case is not None else ""


def beyond(prices: Mapping[str, float], limit: float) -> dict[str, str]:
    """Return what a budget leaves out, each with why.

    What holds no GPU is free. The cheapest go first, and in the order of their names where they cost the same.

    Args:
        prices: GPU-seconds of each scenario and of each test of the site's own.
        limit: GPU-seconds that may be spent.
    """
    spent = 0.0
    left_out: dict[str, str] = {}
    for name, price in sorted(prices.items(), key=lambda one: (one[1], one[0])):
        if price and (left_out or spent + price > limit):
            left_out[name] = (
                f"{REASON}: {name} takes {price:g} GPU-seconds, {max(limit - spent, 0.0):g} of {limit:g} "
                "are left (--gpucluster-max-gpu-seconds)"
            )
        else:
            spent += price
    return left_out


def too_wide(uses: Mapping[str, int], limit: int) -> dict[str, str]:
    """Return what uses more nodes at the same time than it may, each with why."""
    return {
        name: (
            f"{REASON}: {name} uses {plurals.count(nodes, 'node')} at the same time, at most {limit} may be used "
            "(--gpucluster-max-nodes)"
        )
        for name, nodes in uses.items()
        if nodes > limit
    }


def nodes_of(requirement: Requirement, profile: "Profile") -> int:
    """Return how many nodes a requirement's scenario uses at the same time, as far as that is declared."""
    needs = getattr(requirement.scenario, "needs", None)
    found = [int(getattr(needs, "nodes", 0) or 0), int(getattr(needs, "slot_nodes", 0) or 0)]
    if requirement.area == "fabric" and profile.fabric is not None:
        found.append(profile.fabric.nodes or 0)
    if requirement.area == "checkpoint" and profile.storage is not None:
        found.append(profile.storage.nodes)
    if requirement.area == "mfu" and profile.mfu is not None:
        found.append(profile.mfu.nodes or 0)
    return max(found)


def inapplicable(requirement: Requirement, profile: "Profile") -> str:
    """Return why a row does not apply by what the profile declares, "" if it may: such a row takes nothing."""
    elsewhere = requirement.elsewhere({"scheduler": profile.scheduler})
    if elsewhere is not None:
        return elsewhere.observed
    undeclared = getattr(requirement.scenario, "undeclared", None)
    return str(undeclared(profile)) if undeclared is not None else ""


def applying(
    chosen: Iterable[Requirement], profile: "Profile"
) -> tuple[list[Requirement], dict[str, list[str]]]:
    """Return the rows that may apply in the order of the suite, and why the others do not -> their ids.

    A plugin that shuffles tests changes nothing about what they take.
    """
    rows: list[Requirement] = []
    out: dict[str, list[str]] = {}
    for row in sorted(chosen, key=order):
        why = inapplicable(row, profile)
        if why:
            out.setdefault(why, []).append(row.id)
        else:
            rows.append(row)
    return rows, out


def order(requirement: Requirement) -> tuple[Any, ...]:
    """Return the place of a row in the suite: by area, inside an area the cheap scenarios first."""
    prefix = requirement.id.partition("-")[0]
    return (list(AREAS).index(prefix), *cost(requirement), requirement.scenario.name, requirement.id)


def lines(left_out: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each requirement or test that was not run for want of budget: id -> why."""
    for name, why in left_out.items():
        yield f"{name}: not run: {why}"


def cost(requirement: Requirement) -> tuple[float, float]:
    """Return GPU-seconds and seconds of a requirement's scenario, 0 where it does not say."""
    needs = getattr(requirement.scenario, "needs", None)
    return float(getattr(needs, "gpu_seconds", 0) or 0), float(getattr(needs, "seconds", 0) or 0)
