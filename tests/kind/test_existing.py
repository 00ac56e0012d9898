"""A kind cluster as one that exists, and a user who may do no more than `gpucluster rbac` prints."""

import pytest

from tests.kind import account

pytestmark = pytest.mark.kind

ROWS = "GANG-001 or GANG-002 or INV-002"
ACCOUNT = "conformance"


@pytest.fixture
def granted(kind_lab, tmp_path):
    """A kubeconfig of a service account that was granted what is printed for the rows, and nothing else."""
    folder = kind_lab.as_existing("least")
    words = ("--cluster=least", f"--profiles={folder}", "-k", ROWS)
    with account.granted(kind_lab, ACCOUNT, tmp_path, *words) as path:
        yield str(path)


def of_runs(kind_lab):
    """Return the namespaces of runs that nobody is removing; a fault may have kept an earlier run from doing so."""
    found = [each["metadata"] for each in kind_lab.list("Namespace", labels="gpucluster.dev/run")]
    return {each["name"] for each in found if "deletionTimestamp" not in each}


def test_the_least_privileges_suffice(kind_lab, granted):
    """The rows are decided, and pass, without administrator's rights; nothing is left."""
    may = kind_lab.kubectl(
        "auth", "can-i", "--list", f"--as=system:serviceaccount:default:{ACCOUNT}", "-n", "kube-system"
    )
    assert "*.*" not in may
    before = of_runs(kind_lab)
    found = kind_lab.decide("least", ROWS, kubeconfig=granted, context=ACCOUNT)
    assert {row: each["verdict"] for row, each in found.items()} == dict.fromkeys(
        ("GANG-001", "GANG-002", "INV-002"), "pass"
    )
    assert of_runs(kind_lab) <= before
