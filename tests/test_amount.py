"""What runs when: the pure tests, the amount of examples, the order in which workers begin."""

import subprocess
import sys
import types
from pathlib import Path

import hypothesis
import pytest

from tests import amount, order, pure


def test_every_folder_is_called_pure_or_not():
    """A new folder has to be put into one of the two tables."""
    there = {path.name for path in pure.HERE.iterdir() if path.is_dir() and not path.name.startswith("_")}
    assert there == {*pure.PURE, *pure.ELSEWHERE}
    assert not {*pure.PURE} & {*pure.ELSEWHERE}


def test_a_file_is_pure_by_its_folder():
    """At any depth; what lies beside the folders is about tests themselves."""
    assert pure.is_pure(pure.HERE / "measure" / "nccl" / "test_fuzz.py")
    assert pure.is_pure(Path(__file__))
    assert not pure.is_pure(pure.HERE / "node" / "test_pods.py")


def test_a_watch_hears_a_process_that_cannot_start():
    """Even the attempt counts; what came before and after the watch does not."""
    watch = pure.Watch()
    watch.begin()
    with pytest.raises(OSError, match="nowhere"):
        subprocess.run([sys.prefix + "/nowhere"], check=False)
    seen = watch.end()
    # This very test is pure, and another watch holds it to that.
    from tests.conftest import WATCH

    assert WATCH.end() == seen
    assert seen[0].startswith("subprocess.Popen(")
    assert watch.end() == []


@pytest.mark.parametrize(("full", "part"), [(60, 15), (400, 100), (15, 10)])
def test_a_quarter_of_the_examples_is_tried(full, part):
    """All of them where everything is run, and never fewer than ten."""
    before = hypothesis.settings.get_current_profile_name()
    try:
        amount.choose(everything=True)
        assert amount.examples(full).max_examples == full
        amount.choose(everything=False)
        assert amount.examples(full).max_examples == part
    finally:
        hypothesis.settings.load_profile(before)


class Item:
    """A test with a name, a module and perhaps the mark of a long one."""

    def __init__(self, name, group=None, *, long=False):
        """Name it."""
        self.name, self.path, self.group, self.long = name, "module", group, long

    def get_closest_marker(self, name):
        """Return the mark."""
        if name != order.LONG or not self.long:
            return None
        return types.SimpleNamespace(args=(self.group,) if self.group else ())


def test_each_worker_begins_with_a_long_test():
    """Those that share a fixture stay together, the others keep their order, none is lost."""
    items = [Item(f"t{n}") for n in range(9)]
    items.insert(4, Item("a", "shared", long=True))
    items.insert(7, Item("b", long=True))
    items.append(Item("c", "shared", long=True))
    names = [item.name for item in order.spread(items, 2)]
    assert names == ["a", "c", "t0", "t1", "t2", "t3", "b", "t4", "t5", "t6", "t7", "t8"]
    assert order.spread(items, 1) == items


def test_more_workers_than_tests():
    """Nothing to share out."""
    items = [Item("a", long=True), Item("b")]
    assert sorted(item.name for item in order.spread(items, 4)) == ["a", "b"]
