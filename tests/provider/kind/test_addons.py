"""Add-ons: where they come from, their digests, and how they are installed."""

import hashlib

import pytest

from pytest_gpucluster import profile
from pytest_gpucluster.kube import connection, objects
from pytest_gpucluster.provider import ProviderError
from pytest_gpucluster.provider.kind import addons

MANIFESTS = """\
apiVersion: things.example/v1
kind: Thing
metadata: {name: first}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: things}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Namespace
  metadata: {name: things}
- apiVersion: apiextensions.k8s.io/v1
  kind: CustomResourceDefinition
  metadata: {name: things.things.example}
"""


@pytest.fixture
def folder(tmp_path):
    """A folder of an add-on."""
    path = tmp_path / "kueue"
    path.mkdir()
    (path / "manifests.yaml").write_text(MANIFESTS)
    (path / "images.tar").write_text("images")
    (path / "README.md").write_text("read by people only")
    return path


def test_a_folder_is_installed_in_an_order_that_works_and_only_once(api, folder):
    """Archives, then namespaces and definitions, then the rest; the cluster remembers what it has."""
    cluster = objects.Objects(connection.Connection.at(api.url))
    loaded = []
    for _ in range(2):
        addons.install(cluster, addons.fetch("kueue", str(folder), None), loaded.append)
    assert loaded == [folder / "images.tar"]
    assert [path.rpartition("/")[2] for path in api.applied] == [
        "things", "things.things.example", "first", "manager", "gpucluster-kind",
    ]  # fmt: skip
    (folder / "manifests.yaml").write_text(MANIFESTS + "# changed\n")
    addons.install(cluster, addons.fetch("kueue", str(folder), None), loaded.append)
    assert len(loaded) == 2


def test_a_refused_object_is_named(api, folder):
    """With the add-on and the server's words."""
    api.refuse["/apis/things.example/v1/things/first"] = "no things today"
    cluster = objects.Objects(connection.Connection.at(api.url))
    with pytest.raises(ProviderError, match=r"^addons\.kueue: .*apply Thing/first.*no things today"):
        addons.install(cluster, addons.fetch("kueue", str(folder), None), lambda _: None)


def test_digests_are_those_of_sha256sum(folder, tmp_path):
    """Of a file its own; of a folder that of the lines `sha256sum` prints for its files."""
    file = folder / "manifests.yaml"
    assert addons.fetch("kueue", str(file), None).digest == hashlib.sha256(file.read_bytes()).hexdigest()
    lines = "".join(
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("images.tar", "manifests.yaml")
    )
    found = addons.fetch("kueue", str(folder), hashlib.sha256(lines.encode()).hexdigest().upper())
    assert found.digest == hashlib.sha256(lines.encode()).hexdigest()


@pytest.mark.parametrize(
    ("source", "sha256", "told"),
    [
        (
            "{folder}",
            "0" * 64,
            "addons.kueue.sha256: {folder} has the digest [0-9a-f]{{64}}, but 0000",
        ),
        (
            "{folder}/none",
            None,
            "addons.kueue.source: {folder}/none does not exist: give a file, a folder or an https",
        ),
        (
            "https://example.com/m.yaml",
            None,
            "addons.kueue.sha256: is missing; a source from a URL needs its digest",
        ),
        ("http://example.com/m.yaml", "0" * 64, "https only"),
    ],
)
def test_what_is_wrong_with_a_source_is_one_line(folder, source, sha256, told):
    """Key, what was found, what is wanted."""
    with pytest.raises(ProviderError, match=told.format(folder=folder)):
        addons.fetch("kueue", source.format(folder=folder), sha256)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "contains no Kubernetes objects"),
        ("a: [", "is not valid YAML"),
        ("kind: Pod\n", "without kind or metadata.name"),
    ],
)
def test_manifests_are_read_before_a_cluster_is_made(tmp_path, text, told):
    """A broken file costs no cluster."""
    path = tmp_path / "m.yaml"
    path.write_text(text)
    with pytest.raises(ProviderError, match=told):
        addons.fetch("volcano", str(path), None)


def test_a_job_of_an_add_on_can_be_placed_where_jobs_are_gangs():
    """Kubernetes 1.37 makes a PodGroup for every Job and refuses one of a system priority."""
    job = {
        "kind": "Job",
        "spec": {"template": {"spec": {"priorityClassName": "system-cluster-critical", "x": 1}}},
    }
    assert addons.placeable(job)["spec"]["template"]["spec"] == {"x": 1}
    ours = {"kind": "Job", "spec": {"template": {"spec": {"priorityClassName": "ours"}}}}
    assert addons.placeable(ours) is ours


def test_managers_stay_off_the_nodes_that_rows_restart():
    """A webhook on a restarted worker would refuse the replacements; who says where it belongs is obeyed."""
    deployment = {"kind": "Deployment", "spec": {"replicas": 1, "template": {"spec": {"x": 1}}}}
    placed = addons.placeable(deployment)["spec"]
    assert placed["replicas"] == 1
    assert placed["template"]["spec"] == {
        "x": 1,
        "nodeSelector": {addons.CONTROL_PLANE: ""},
        "tolerations": [{"key": addons.CONTROL_PLANE, "operator": "Exists"}],
    }
    for own in ({"nodeSelector": {"a": "b"}}, {"affinity": {"nodeAffinity": {}}}):
        chosen = {"kind": "Deployment", "spec": {"template": {"spec": own}}}
        assert addons.placeable(chosen) is chosen


def test_an_add_on_declares_what_it_brings(tmp_path):
    """Volcano writes the gangs where it is installed; a run may say otherwise."""
    plain = profile.load("kind").profile
    assert plain.scheduler == "native"
    source = ("addons", "volcano", "source")
    loaded = profile.load("kind", given=[(source, str(tmp_path), "test")])
    assert loaded.profile.scheduler == "volcano"
    assert loaded.profile.versions["volcano"] == ("1.14",)
    assert loaded.sources["scheduler"] == "add-on volcano"
    told = profile.load("kind", given=[(source, str(tmp_path), "test")], cli=["scheduler=default-scheduler"])
    assert told.profile.scheduler == "default-scheduler"


def test_a_file_may_make_its_own_kind_cluster(tmp_path):
    """It says what differs, with paths that start at its folder; no connection is asked for."""
    (tmp_path / "lab.yaml").write_text(
        "provider: kind\nkind: {image: 'kindest/node:v1.37.2', config: cluster.yaml}\n"
        "addons: {kueue: {source: kueue}}\ngpus_per_node: 4\n"
    )
    loaded = profile.load("lab", [tmp_path]).profile
    assert (loaded.provider, loaded.gpus_per_node) == ("kind", 4)
    assert loaded.kind.config == str(tmp_path / "cluster.yaml")
    assert loaded.addons["kueue"].source == str(tmp_path / "kueue")
