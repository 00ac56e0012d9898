"""A run with exactly the printed roles passes, and with one verb less it is `environment` and names the verb."""

import dataclasses
import pathlib
import subprocess
import sys
import types

import pytest
import yaml

from pytest_gpucluster import profile, provider
from pytest_gpucluster.kube import connection, objects
from pytest_gpucluster.kube import permissions as kube
from pytest_gpucluster.kube.permissions import Permission
from pytest_gpucluster.provider.embedded import EmbeddedProvider
from pytest_gpucluster.report import decisions
from pytest_gpucluster.report.suites import load_suites
from pytest_gpucluster.scenario import RunStore, Session, cluster_identity, permissions, sweep
from suites.scenarios.inventory import inventory
from suites.scenarios.scarcity import scarce_gang
from tests.endtoend import harness

pytestmark = pytest.mark.slow

KUBECTL = str(pathlib.Path(sys.executable).with_name("kubectl"))
USER = "ci"
WANTED = sorted(permissions.of_run([scarce_gang], profile.load("embedded").profile, namespace=None))
"""What a run of GANG-002 takes."""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """An embedded cluster with a user who has no rights but those that a test gives."""
    folder = tmp_path_factory.mktemp("served")
    source = EmbeddedProvider(tokens=[{"token": "ci-token", "user": USER}], tls=True)
    with provider.start(profile.load("embedded"), folder, source=source) as cluster:
        written = {
            "connection": {"kubeconfig": str(cluster.kubeconfig), "context": USER},
            "scheduler": "volcano",
            "queue": "default",
            "gpu_resource": "nvidia.com/gpu",
            "gpus_per_node": 8,
            "scheduler_period": 0.05,
            # Beside other tests (harness.BUSY).
            "bind_spread": 1.0,
            "images": {"python": "python"},
        }
        (folder / "there.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
        yield types.SimpleNamespace(cluster=cluster, folder=folder)


def kubectl(served, *words):
    """Run kubectl as the administrator."""
    done = subprocess.run(
        [KUBECTL, f"--kubeconfig={served.cluster.kubeconfig}", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def api(served):
    """The administrator's API."""
    return objects.Objects(connection.Connection.open(served.cluster.kubeconfig))


@pytest.fixture
def grant(api):
    """Return a function that gives the user roles until the test's end."""
    given = []

    def give(documents):
        bound = permissions.bindings(documents, "unused", "default")[1:]
        for binding in bound:
            binding["subjects"] = [{"apiGroup": permissions.RBAC, "kind": "User", "name": USER}]
        for each in [*documents, *bound]:
            space = each["metadata"].get("namespace")
            api.create(each, namespace=space)
            info = api.info(each["apiVersion"], each["kind"])
            given.append((info, each["metadata"]["name"], space))

    yield give
    for one in given:
        api.delete(*one)


@pytest.fixture
def silent(api, grant):
    """Let users not ask for their own rights, as where another authorizer decides: what is missing shows late."""
    info = api.info(f"{permissions.RBAC}/v1", "ClusterRoleBinding")
    binding = api.get(info, "system:basic-user")
    api.delete(info, "system:basic-user")
    yield grant
    binding["metadata"] = {"name": "system:basic-user"}
    api.create(binding)


def play(served, folder):
    """Run the scenario of GANG-002 as the user; returns its evidence and the closed session."""
    cluster = dataclasses.replace(served.cluster, context=USER)
    with Session(cluster, profile.load("embedded").profile, RunStore(folder)) as session:
        evidence = session.evidence(scarce_gang)
    return evidence, session


def test_the_printed_roles_suffice_and_none_is_idle(served, grant, tmp_path):
    """`gpucluster rbac` for several areas: every row of them passes, and each verb but those of waiting was used."""
    printed = harness.gpucluster("rbac", "-k", "GANG-001 or GANG-002 or GANG-008")
    assert printed.returncode == 0, printed.stderr
    grant(list(yaml.safe_load_all(printed.stdout)))
    done = harness.run_suite(
        tmp_path,
        "-k",
        "GANG-001 or GANG-002 or GANG-008",
        "--cluster=there",
        f"--gpucluster-profiles={served.folder}",
    )
    report = harness.report_of(tmp_path)
    assert set(harness.verdicts(report).values()) == {"pass"}, done.stdout
    assert report["cleanup"]["left_overs"] == []
    found = {kube.of_request(each) for each in report["requests"]["by"]}
    granted = {
        Permission(group, resource, verb)
        for document in yaml.safe_load_all(printed.stdout)
        for rule in document["rules"]
        if document["kind"] == "ClusterRole" or document["metadata"]["namespace"] == cluster_identity.LASTS
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {each for each in found if each and each.resource != "leases"} == granted


@pytest.mark.parametrize("less", WANTED, ids=str)
def test_one_verb_less_is_told_before_anything_is_done(served, grant, tmp_path, less):
    """The rights are asked for first: the row is environment, the verb is named, nothing was made."""
    grant(permissions.roles([each for each in WANTED if each != less], "less", namespace=None))
    evidence, session = play(served, tmp_path / "run-less1")
    problem = evidence.header["problem"]
    assert problem["verdict"] == "environment"
    assert f"not permitted: {less}; " in problem["text"]
    assert "gpucluster rbac" in problem["text"]
    assert session.left_overs == []
    assert not any(each.startswith("create Job") for each in session.requests["requests"])


LATE = (
    "create namespaces", "delete namespaces", "watch namespaces", "list nodes", "watch nodes", "watch pods",
    "patch nodes/status", "create pods", "delete pods", "create jobs.batch.volcano.sh",
    "delete jobs.batch.volcano.sh", "create leases.coordination.k8s.io in default",
    "delete leases.coordination.k8s.io in default",
)  # fmt: skip
"""One of each place in which a refusal can be met; the kinds that are only watched all meet it in the same."""


@pytest.mark.parametrize("less", [each for each in WANTED if str(each) in LATE], ids=str)
def test_one_verb_less_is_told_where_rights_cannot_be_asked_for(served, api, silent, tmp_path, less):
    """The refusal itself tells: environment and the verb; what only the cleanup needs is a left-over with the verb."""
    silent(permissions.roles([each for each in WANTED if each != less], "less", namespace=None))
    evidence, session = play(served, tmp_path / "run-less2")
    words = f'cannot {less.verb} resource "{less.resource}" in API group "{less.group}"'
    if less.resource in {"namespaces", "leases"} and less.verb != "create":
        assert "problem" not in evidence.header
        assert any(words in str(item) for item in session.left_overs), session.left_overs
    else:
        problem = evidence.header["problem"]
        assert problem["verdict"] == "environment", problem
        assert words in problem["text"], problem
    swept = sweep(api.connection, run_id="run-less2")
    assert swept.failed == ()


def test_a_lent_namespace_needs_no_right_on_namespaces(served, grant, tmp_path):
    """With a namespace of the operator a Role in it suffices for what lies in it, and it is left empty."""
    kubectl(served, "create", "namespace", "team-a")
    printed = harness.gpucluster("rbac", "-k", "GANG-001 or GANG-002", "--namespace", "team-a")
    documents = list(yaml.safe_load_all(printed.stdout))
    clustered = next(each for each in documents if each["kind"] == "ClusterRole")
    assert {resource for rule in clustered["rules"] for resource in rule["resources"]} == {
        "nodes", "nodes/status", "queues",
    }  # fmt: skip
    grant(documents)
    done = harness.run_suite(
        tmp_path,
        "-k",
        "GANG-001 or GANG-002",
        "--cluster=there",
        f"--gpucluster-profiles={served.folder}",
        "--gpucluster-set=namespace=team-a",
    )
    report = harness.report_of(tmp_path)
    assert harness.verdicts(report) == {"GANG-001": "pass", "GANG-002": "pass"}, done.stdout
    assert report["cleanup"]["left_overs"] == []
    left = kubectl(
        served, "get", "pods,configmaps,services,jobs.batch.volcano.sh", "-n", "team-a", "-o", "name"
    )
    # That one Kubernetes puts into every namespace.
    assert left.split() == ["configmap/kube-root-ca.crt"]


def test_one_verb_less_is_environment_in_a_run(served, grant, tmp_path):
    """The run is red, the row says what to grant, the run goes on with the rows that may."""
    less = Permission("", "nodes/status", "patch")
    grant(permissions.roles([each for each in WANTED if each != less], "less", namespace=None))
    done = harness.run_suite(
        tmp_path, "-k", "INV-001 or GANG-002", "--cluster=there", f"--gpucluster-profiles={served.folder}"
    )
    report = harness.report_of(tmp_path)
    assert done.returncode == 1
    assert harness.verdicts(report) == {"INV-001": "pass", "GANG-002": "environment"}, done.stdout
    row = next(row for row in report["requirements"] if row["id"] == "GANG-002")
    assert "not permitted: patch nodes/status" in row["finding"]["observed"]


@pytest.mark.parametrize(
    ("less", "row"),
    [("get configmaps in volcano-system", "INV-009"), ("list deployments.apps in volcano-system", "INV-006")],
)
def test_what_one_row_alone_reads_costs_that_row_alone(served, grant, tmp_path, less, row):
    """Without the right to read Volcano's namespace one row of the inventory is environment and names the verb."""
    told = profile.load("embedded").profile
    wanted = permissions.of_run([inventory], told, namespace=None)
    assert less in map(str, wanted)
    grant(permissions.roles([each for each in wanted if str(each) != less], "less", namespace=None))
    cluster = dataclasses.replace(served.cluster, context=USER)
    with Session(cluster, told, RunStore(tmp_path / "run-less3")) as session:
        evidence = session.evidence(inventory)
    rows = {each.id: each for each in load_suites() if each.scenario.name == "inventory"}
    found = {name: decisions.decide(each, evidence) for name, each in rows.items()}
    assert {name for name, finding in found.items() if finding.verdict != "pass"} == {row}
    assert found[row].verdict == "environment"
    verb, resource, *place = less.split(" ", 2)
    assert f"{verb} on {resource} {' '.join(place)}" in found[row].observed
