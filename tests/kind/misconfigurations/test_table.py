"""Each fault of the table, planted into a real cluster: the rows that it concerns say so.

`make test-kind` runs it where kind and a container engine are; the table is printed at the end, and written into the
documentation where every fault was planted.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures

import pytest

from tests.kind.lab import Lab
from tests.kind.misconfigurations import faults, table


@contextlib.contextmanager
def standing(lab: Lab, planted: Sequence[faults.Fault]) -> Iterator[None]:
    """Plant faults at one time, and take them out so: each mostly waits for its own part of the cluster."""
    with futures.ThreadPoolExecutor(len(planted)) as pool:
        plants = [fault.plant(lab) for fault in planted]
        begun = [pool.submit(plant.__enter__) for plant in plants]
        try:
            for each in begun:
                each.result()
            yield
        finally:
            futures.wait(begun)
            stand = [plant for plant, each in zip(plants, begun, strict=True) if each.exception() is None]
            ended = [pool.submit(plant.__exit__, None, None, None) for plant in stand]
            for end in ended:
                end.result()


@pytest.mark.kind
@pytest.mark.parametrize("names", faults.SIDE_BY_SIDE, ids="+".join)
def test_faults_are_seen(names: Sequence[str], kind_lab: Lab, tell: Callable[[str, object], None]) -> None:
    """The rows of each fault have a verdict that the table allows, and name where the fault is."""
    planted = faults.together(names)
    kind_lab.require(sorted({addon for fault in planted for addon in fault.needs}))
    rows = [row for fault in planted for row in fault.rows]
    with standing(kind_lab, planted):
        found = kind_lab.decide("+".join(names), " or ".join(rows), changes=faults.changes(planted))
    for fault in planted:
        tell(table.TOLD, [fault.name, {row: found[row]["verdict"] for row in fault.rows if row in found}])
    assert set(found) == set(rows), "a row was not decided"
    for fault in planted:
        for row, allowed in fault.rows.items():
            assert found[row]["verdict"] in allowed, (fault.name, found[row])
        for row, place in fault.tells.items():
            assert place(kind_lab) in str(found[row]), (fault.name, found[row])


def test_every_fault_is_planted_once() -> None:
    """The table and what is planted at one time name the same."""
    named = [name for names in faults.SIDE_BY_SIDE for name in names]
    assert sorted(named) == sorted(fault.name for fault in faults.FAULTS)


@pytest.mark.parametrize("names", faults.SIDE_BY_SIDE, ids="+".join)
def test_no_two_faults_of_one_time_share_a_row(names: Sequence[str]) -> None:
    """A row that is red tells of one fault; what one needs in the profile, no other changes."""
    planted = faults.together(names)
    rows = [row for fault in planted for row in fault.rows]
    assert len(rows) == len(set(rows))
    keys = [(key, each) for fault in planted for key, value in fault.changes.items() for each in value]
    assert len(keys) == len(set(keys))
