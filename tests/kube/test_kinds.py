"""The table of kinds: each row has a key of its own."""

from collections import Counter

from pytest_gpucluster.kube import kinds


def test_no_two_kinds_share_a_key():
    """Two kinds of one name would be recorded as one."""
    shared = [key for key, count in Counter(info.key for info in kinds.TABLE).items() if count > 1]
    assert not shared
    assert all(kinds.by_key(info.key) is info for info in kinds.TABLE)
