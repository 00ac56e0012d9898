"""A kind cluster as one that exists, and a user who may do no more than `gpucluster rbac` prints."""

import json
import pathlib
import subprocess
import sys

import pytest
import yaml

from tests.kind import lab

pytestmark = pytest.mark.kind

ROWS = "GANG-001 or GANG-002 or INV-002"
ACCOUNT = "conformance"
CODE = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"


@pytest.fixture
def account(kind_lab, tmp_path):
    """A kubeconfig of a service account that was granted what is printed for the rows, and nothing else."""
    folder = kind_lab.as_existing("least")
    done = subprocess.run(
        [sys.executable, "-c", CODE, "rbac", "--cluster=least", f"--profiles={folder}", "-k", ROWS,
         f"--service-account=default/{ACCOUNT}"],
        cwd=lab.ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    granted = [each for each in yaml.safe_load_all(done.stdout) if each]
    with kind_lab.having(*granted):
        yield str(as_account(kind_lab, tmp_path))


def as_account(kind_lab, folder):
    """Write a kubeconfig of the account into a folder."""
    token = kind_lab.kubectl("create", "token", ACCOUNT, "--duration=1h").strip()
    config = yaml.safe_load(pathlib.Path(kind_lab.cluster.kubeconfig).read_text(encoding="utf-8"))
    (folder / "token").write_text(token, encoding="utf-8")
    config["users"] = [{"name": "least", "user": {"tokenFile": "token"}}]
    config["contexts"] = [
        {"name": "least", "context": {"cluster": config["clusters"][0]["name"], "user": "least"}}
    ]
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def of_runs(kind_lab):
    """Return the namespaces of runs that nobody is removing; a fault may have kept an earlier run from doing so."""
    found = [each["metadata"] for each in kind_lab.list("Namespace", labels="gpucluster.dev/run")]
    return {each["name"] for each in found if "deletionTimestamp" not in each}


def test_the_least_privileges_suffice(kind_lab, account):
    """The rows are decided, and pass, without administrator's rights; nothing is left."""
    may = kind_lab.kubectl(
        "auth", "can-i", "--list", f"--as=system:serviceaccount:default:{ACCOUNT}", "-n", "kube-system"
    )
    assert "*.*" not in may
    before = of_runs(kind_lab)
    found = kind_lab.decide("least", ROWS, kubeconfig=account, context="least")
    assert {row: each["verdict"] for row, each in found.items()} == dict.fromkeys(
        ("GANG-001", "GANG-002", "INV-002"), "pass"
    )
    assert of_runs(kind_lab) <= before
