"""In which order workers take tests: what takes longest first, or the run ends with one worker that waits."""

from collections import defaultdict
from collections.abc import Sequence

import pytest

LONG = "long"


def spread(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the tests in the order that lets each worker begin with its part of the long ones.

    `--dist worksteal` gives each worker a run of consecutive tests at first; long tests that share what a fixture of
    their module made stay together.

    Args:
        items: Tests in their order, perhaps a random one.
        workers: How many processes run them; with one, the order stays.
    """
    if workers == 1:
        return list(items)
    groups: dict[object, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if (marker := item.get_closest_marker(LONG)) is not None:
            groups[(item.path, *marker.args) if marker.args else item].append(item)
    chosen = {item for group in groups.values() for item in group}
    rest = [item for item in items if item not in chosen]
    first: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for number, group in enumerate(groups.values()):
        first[number % workers] += group
    ordered: list[pytest.Item] = []
    left, at = len(items), 0
    for worker in range(workers):
        size = left // (workers - worker)
        more = max(size - len(first[worker]), 0)
        ordered += first[worker] + rest[at : at + more]
        at += more
        left -= size
    return ordered + rest[at:]
