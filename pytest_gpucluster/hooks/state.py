"""What the hooks of one process share, under stash keys."""

import dataclasses
from typing import Any

import pytest

from pytest_gpucluster.requirement import Finding, Requirement, Verdict, requirement_of

REQUIREMENT_PROPERTY = "gpucluster.requirement"
VERDICT_PROPERTY = "gpucluster.verdict"
SCENARIO_PROPERTY = "gpucluster.scenario"
LEVEL_PROPERTY = "gpucluster.level"
WAIVER_PROPERTY = "gpucluster.waived"
FLAKY_PROPERTY = "gpucluster.flaky"
"""Names in `user_properties`: what crosses to the controller, to JUnit and to pytest-html, as texts."""


NOT_RUN = "not_run"
"""Stands for a verdict where a row was selected and its turn came after the deadline."""


@dataclasses.dataclass
class Case:
    """What became of the requirement of one test item.

    Attributes:
        requirement: the declaration.
        finding: the decision, None while there is none.
        text: its failure text.
        settled: the test asked for the decision, or there was none to ask for.
        recorded: it stands in the journal.
        seconds: how long evidence and decision took.
        attempt: 1, or more where a plugin repeats the test.
        waived: the waiver in force for a row that is red, in one line; "" without one.
    """

    requirement: Requirement
    finding: Finding | None = None
    text: str = ""
    settled: bool = False
    recorded: bool = False
    seconds: float = 0.0
    attempt: int = 1
    waived: str = ""

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict, None while there is none."""
        return self.finding.verdict if self.finding else None


@dataclasses.dataclass
class Selection:
    """What collection found.

    Attributes:
        selected: ids of requirements that are to run, in order.
        deselected: requirement -> why it was deselected.
        total: how many requirement items were collected.
        collected: all items of a run with requirements, until it is known which of them are selected.
        left_out: requirement -> why it is not run although it was selected: the budget, or the bound of nodes.
        site_tests: node id of a test of the site's own that is to run -> what is known of it, as plain data.
        site_left_out: node id -> why it is not run although it was selected.
        asked: areas that were asked for by name.
    """

    selected: list[str] = dataclasses.field(default_factory=list)
    deselected: dict[str, tuple[Requirement, str]] = dataclasses.field(default_factory=dict)
    total: int = 0
    collected: tuple[pytest.Item, ...] = ()
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)
    site_tests: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    site_left_out: dict[str, str] = dataclasses.field(default_factory=dict)
    asked: tuple[str, ...] = ()

    def beyond_budget(self) -> dict[str, str]:
        """Return all that a budget leaves out: id of a row, or node id of a site's own test -> why."""
        return {**self.left_out, **self.site_left_out}


class Outcome(Exception):  # noqa: N818 - not every outcome is an error
    """Carries the text of a verdict out of a test; shown without a traceback."""


SUITES = "gpucluster-suites"
"""Name of the plugin that is there if the suites were added to a run."""

CASE = pytest.StashKey[Case]()
SELECTION = pytest.StashKey[Selection]()
RUN = pytest.StashKey[Any]()
"""The `hooks.run.Run` of this process: its module is imported only if there is one."""

PROBLEM = pytest.StashKey[str]()
"""A usage error that a worker found and that its controller tells."""


def declared(item: pytest.Item) -> Requirement | None:
    """Return the requirement that a test item declares, if any."""
    function = getattr(item, "function", None)
    # Cheap first: almost every item of a foreign project leaves here.
    if not hasattr(function, "__gpucluster_requirement__"):
        return None
    return requirement_of(function)


def case_of(item: pytest.Item) -> Case | None:
    """Return the case of a requirement's item, made when first asked for; None for any other test."""
    case = item.stash.get(CASE, None)
    if case is not None:
        return case
    requirement = declared(item)
    if requirement is None:
        return None
    item.stash[CASE] = case = Case(requirement)
    return case


def begin_attempt(item: pytest.Item) -> None:
    """Begin a repeated attempt of a requirement's item with a fresh case; the first needs none."""
    case = case_of(item)
    # Set by pytest-rerunfailures.
    attempt = int(getattr(item, "execution_count", 1) or 1)
    if case is None or attempt <= case.attempt:
        return
    item.stash[CASE] = Case(case.requirement, attempt=attempt)
    for name in (VERDICT_PROPERTY, WAIVER_PROPERTY):
        item.user_properties[:] = [(key, old) for key, old in item.user_properties if key != name]
    if case.verdict is not Verdict.PASS:
        set_property(item, FLAKY_PROPERTY, "1")


def selection_of(config: pytest.Config) -> Selection:
    """Return what collection found, made when first asked for."""
    found = config.stash.get(SELECTION, None)
    if found is None:
        config.stash[SELECTION] = found = Selection()
    return found


def set_property(item: pytest.Item, name: str, value: str) -> None:
    """Set a user property once: a later value replaces the earlier one."""
    item.user_properties[:] = [(key, old) for key, old in item.user_properties if key != name]
    item.user_properties.append((name, value))


def is_worker(config: pytest.Config) -> bool:
    """Report whether this process is a worker of xdist."""
    return hasattr(config, "workerinput")
