"""The unattended session on GPUs: which disk it takes, and how much it dares to write there."""

import pathlib

import pytest

from dev import checkpoints_on_gpus as session

GB = 10**9


def disk(name, fs, free):
    """Return a disk."""
    return session.Disk(pathlib.Path("/", name), fs, free)


def test_a_disk_goes_before_memory_and_before_a_containers_layer():
    """Also before larger ones; of two disks the one with more room is taken, and of none the largest place."""
    layer, memory = disk("a", "overlay", 900 * GB), disk("b", "tmpfs", 500 * GB)
    small, large = disk("c", "ext4", 30 * GB), disk("d", "xfs", 60 * GB)
    assert session.chosen([layer, memory, small, large]) == large
    assert session.chosen([layer, memory]) == layer
    assert [each.real for each in (layer, memory, small, large)] == [False, False, True, True]


@pytest.mark.parametrize("part", sorted(session.PARTS))
def test_a_part_ends_within_its_time_and_fits_onto_the_disk(part):
    """What is moved takes no longer than there is time, and what is kept leaves room; one layer is always saved."""
    for speed in (0.02 * GB, 0.1 * GB, 0.5 * GB, 3 * GB):
        for free in (1 * GB, 10 * GB, 25 * GB, 60 * GB):
            layers = session.layers_that_fit(540, speed, free, part)
            assert 1 <= layers <= session.LAYERS
            if layers > 1:
                assert layers * session.LAYER * session.MOVED[part] / speed <= 540 - session.START
                assert layers * session.LAYER * session.KEPT <= free


def test_a_fast_and_large_disk_takes_the_whole_model():
    """3.2 billion weights on 64 GB at 2 GB/s."""
    for part in session.PARTS:
        assert session.layers_that_fit(540, 2 * GB, 50 * GB, part) == session.LAYERS


def test_its_arguments_are_those_that_the_page_tells():
    """The command of the how-to is one that it takes."""
    told = pathlib.Path(session.ROOT, "docs/how-to/declare-the-storage.md").read_text(encoding="utf-8")
    (line,) = [each for each in told.splitlines() if each.startswith("python -m dev.checkpoints_on_gpus")]
    options = session.arguments(line.split()[3:])
    assert (options.part, options.cluster, options.within) == ("both", "host", 540.0)
