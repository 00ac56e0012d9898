"""Elastic jobs over a real etcd 3.5 in a pod of the cluster: `make test-kind PYTEST_ARGS=--everything`, as nightly.

The comparison runs the same rows over a store pod each time; over etcd they cost two further minutes.
"""

import pytest

pytestmark = pytest.mark.kind

ROWS = "ELA"
PASS = {f"ELA-00{number}": "pass" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9)}
LIMIT = 900.0


def test_elastic_rows_hold_over_etcd(kind_lab, pytestconfig):
    """Every row passes with the membership in etcd; each worker's image has its client."""
    if not pytestconfig.getoption("everything"):
        pytest.skip("elastic rows over etcd: with --everything, which make everything gives")
    image = kind_lab.cluster.images["torch"]
    changes = {"elastic": {"backend": "etcd-v2"}, "images": {"etcd": image}}
    found = kind_lab.decide("etcd", ROWS, changes=changes, timeout=LIMIT)
    assert {row: each["verdict"] for row, each in found.items()} == PASS
    assert "etcd 0.4" in found["ELA-006"]["finding"]["observed"]
