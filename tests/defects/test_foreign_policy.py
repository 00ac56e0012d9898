"""Live: whoever refuses in the place of Volcano's admission turns no row about refusals green."""

import pytest

from tests.defects import matrix

pytestmark = pytest.mark.matrix

ROWS = ("REF-003", "REF-004")


@pytest.mark.parametrize("with_volcano", [False, True], ids=["admission-down", "admission-up"])
def test_a_policy_engine_that_denies_everything_proves_nothing(lab, with_volcano):
    """Every Job is refused, by a gate that knows nothing of queues and tasks."""
    planted = ["admission.foreign-policy", *([] if with_volcano else ["admission.down"])]
    rows = [row for row in matrix.rows() if row.id in ROWS]
    with lab.planted(*planted) as cluster:
        assert lab.verdicts(cluster, rows) == dict.fromkeys(ROWS, "inconclusive")
