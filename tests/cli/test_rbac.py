"""`gpucluster rbac` prints the smallest roles for a selection."""

import pathlib

import pytest
import yaml

from pytest_gpucluster.cli import rbac
from pytest_gpucluster.cli.common import CliError


def printed(capsys, *words):
    """Return the documents that the command prints."""
    assert rbac.run(list(words)) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def granted(documents, kind, namespace=None):
    """Return (verb, resource) of the roles of a kind in a namespace."""
    return {
        (verb, resource)
        for each in documents
        if each["kind"] == kind and each["metadata"].get("namespace") == namespace
        for rule in each["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_a_selection_needs_less_than_the_whole(capsys):
    """Without slots no node is patched, without logs none is read; pods are made to prove a watch."""
    few = granted(printed(capsys, "-k", "REF-003"), "ClusterRole")
    many = granted(printed(capsys), "ClusterRole")
    assert few < many
    assert {("patch", "nodes/status"), ("get", "pods/log"), ("delete", "pods")} <= many - few
    assert {("create", "pods"), ("patch", "pods")} <= few
    assert ("create", "jobs") in few


def test_areas_and_words_select_as_in_pytest(capsys):
    """-m and -k together; the header says how many rows they are."""
    assert rbac.run(["-m", "gang and not control", "-k", "GANG-002 or INV-001"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# -m 'gang and not control' -k 'GANG-002 or INV-001' on embedded")
    assert "1 requirement from 1 scenario\n" in out


def test_in_a_lent_namespace_only_cluster_scoped_kinds_are_granted_everywhere(capsys):
    """A Role in it, and a ClusterRole without anything that lies in a namespace; bindings to the account."""
    documents = printed(
        capsys, "-k", "GANG-001 or GANG-002", "--namespace", "team-a", "--service-account", "ops/ci"
    )
    everywhere = {resource for _, resource in granted(documents, "ClusterRole")}
    assert everywhere == {"nodes", "nodes/status", "queues"}
    inside = granted(documents, "Role", "team-a")
    assert {("create", "pods"), ("create", "configmaps"), ("delete", "configmaps")} <= inside
    account = next(each for each in documents if each["kind"] == "ServiceAccount")
    assert account["metadata"] == {"name": "ci", "namespace": "ops"}
    for each in documents:
        if each["kind"].endswith("Binding"):
            assert each["subjects"] == [{"kind": "ServiceAccount", "name": "ci", "namespace": "ops"}]
            assert each["roleRef"]["kind"] == each["kind"].removesuffix("Binding")


def test_the_profile_says_scheduler_and_namespace(capsys, tmp_path: pathlib.Path):
    """Another scheduler's gang is another kind; the namespace of the profile counts."""
    profile = {
        "connection": {"kubeconfig": "k", "context": "c"}, "scheduler": "default-scheduler", "queue": "q",
        "gpu_resource": "nvidia.com/gpu", "gpus_per_node": 8, "namespace": "lent",
    }  # fmt: skip
    (tmp_path / "there.yaml").write_text(yaml.safe_dump(profile))
    documents = printed(capsys, "-k", "GANG-001", "--cluster", "there", "--profiles", str(tmp_path))
    role = next(each for each in documents if each["metadata"].get("namespace") == "lent")
    making = [rule for rule in role["rules"] if "create" in rule["verbs"]]
    made = {(rule["apiGroups"][0], rule["resources"][0]) for rule in making}
    assert ("batch", "jobs") in made
    assert ("batch.volcano.sh", "jobs") not in made


@pytest.mark.parametrize(
    ("declares", "places"),
    [
        ({"scheduler": "native"}, set()),
        ({"scheduler": "native", "kueue": {}}, set()),
        ({"scheduler": "volcano"}, {"volcano-system"}),
        ({"scheduler": "volcano", "namespaces": {"volcano": "batch"}}, {"batch"}),
        ({"scheduler": "native", "versions": {"kueue": ["0.17"], "driver": ["580"]}}, {"kueue-system"}),
        (
            {
                "scheduler": "native",
                "versions": {"gpu-operator": ["25.3"]},
                "namespaces": {"gpu-operator": "ops"},
            },
            {"ops"},
        ),
    ],
)
def test_roles_lie_only_in_namespaces_that_the_cluster_has(capsys, tmp_path, declares, places):
    """A component that the profile does not declare has none; `kubectl apply` would refuse a Role there."""
    profile = {
        "connection": {"kubeconfig": "k", "context": "c"}, "queue": "q",
        "gpu_resource": "nvidia.com/gpu", "gpus_per_node": 8, **declares,
    }  # fmt: skip
    (tmp_path / "there.yaml").write_text(yaml.safe_dump(profile))
    documents = printed(capsys, "-m", "inventory", "--cluster", "there", "--profiles", str(tmp_path))
    found = {each["metadata"]["namespace"] for each in documents if each["kind"] == "Role"}
    assert found - {"default", "kube-system"} == places


PROFILE = {
    "connection": {"kubeconfig": "k", "context": "c"}, "queue": "training", "scheduler": "volcano",
    "gpu_resource": "nvidia.com/gpu", "gpus_per_node": 8,
}  # fmt: skip


def of_command(capsys, folder, command, *words, **more):
    """Return the documents that are printed for a command."""
    (folder / "there.yaml").write_text(yaml.safe_dump({**PROFILE, **more}))
    return printed(capsys, "--command", command, "--cluster", "there", "--profiles", str(folder), *words)


def changeable(documents):
    """Return resource -> names that may be patched."""
    return {
        resource: {*rule.get("resourceNames", ())}
        for each in documents
        for rule in each["rules"]
        for resource in rule["resources"]
        if "patch" in rule["verbs"] and resource.endswith("queues")
    }


def test_a_promotion_may_change_its_queue_and_no_other(capsys, tmp_path):
    """That of the profile, or those that are named; Commands where they are made, Events in default."""
    documents = of_command(capsys, tmp_path, "promote")
    assert changeable(documents) == {"queues": {"training"}}
    inside = granted(documents, "Role", "default")
    assert inside == {
        ("create", "events"), ("create", "commands"), ("get", "commands"), ("delete", "commands"),
    }  # fmt: skip
    two = of_command(capsys, tmp_path, "promote", "--queue", "a", "--queue", "b")
    rules = [rule for each in two for rule in each["rules"] if rule.get("resourceNames") in (["a"], ["b"])]
    assert len(rules) == 2
    kueue = of_command(capsys, tmp_path, "promote", scheduler="kueue", kueue={"cluster_queue": "cq"})
    assert changeable(kueue) == {"clusterqueues": {"cq"}}
    assert ("create", "jobs") not in granted(kueue, "ClusterRole")


def test_to_promote_a_held_queue_takes_what_its_trial_takes(capsys, tmp_path):
    """The gang of GANG-001 is made by the same account."""
    plain = granted(of_command(capsys, tmp_path, "promote"), "ClusterRole")
    held = granted(of_command(capsys, tmp_path, "promote", conformance_queue="conformance"), "ClusterRole")
    assert plain < held
    assert ("create", "jobs") in held


def test_the_gatekeeper_writes_two_kinds_of_status_and_its_lease(capsys, tmp_path):
    """It may change no spec and no queue."""
    documents = of_command(capsys, tmp_path, "gatekeeper", lease_namespace="ops", kueue={})
    assert {resource for verb, resource in granted(documents, "ClusterRole") if verb == "patch"} == {
        "admissionchecks/status", "workloads/status",
    }  # fmt: skip
    assert ("patch", "leases") in granted(documents, "Role", "ops")
    assert granted(documents, "Role", "kueue-system") == {("list", "deployments")}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--command", "promot"], "unknown command with roles 'promot'; did you mean 'promote'"),
        (["--command", "promote", "-k", "GANG-001"], "-m and -k select rows of a run"),
        (["--queue", "training"], "--queue only goes with --command promote"),
        (
            ["--command", "promote", "--queue", "q", "--set", "scheduler=native", "--set", "kueue=null"],
            "nothing can be promoted: the profile embedded declares no scheduler with queues",
        ),
        (
            ["--command", "promote", "--set", "scheduler=native"],
            "nothing can be promoted: the profile embedded names no queue: say which one with --queue",
        ),
        (["-m", "gang and"], "Wrong expression passed to '-m'"),
        (["-k", "nosuch"], "no requirement is selected by -k 'nosuch'"),
        (["--service-account", "a/b/c"], "'b/c' is not a valid name"),
        (["--namespace", "Team_A"], "'Team_A' is not a valid name"),
        (["--cluster", "embeded"], "did you mean 'embedded'"),
        (["--set", "scheduler=slurm"], "scheduler = 'slurm': is not known (allowed: default-scheduler,"),
    ],
)
def test_mistakes_are_one_line(words, line):
    """Nothing is printed but the line."""
    with pytest.raises(CliError) as caught:
        rbac.run(words)
    assert line in str(caught.value)
