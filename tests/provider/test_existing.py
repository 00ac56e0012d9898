"""A cluster that exists."""

import pytest

from pytest_gpucluster import profile, provider

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443"}}]
users: [{name: u, user: {token: secret-token}}]
contexts: [{name: prod-a, context: {cluster: c, user: u}}]
"""

PROFILE = """\
connection: {kubeconfig: kubeconfig, context: prod-a}
scheduler: volcano
queue: training
gpu_resource: nvidia.com/gpu
gpus_per_node: 8
"""

IMAGE = f"registry/python@sha256:{'1' * 64}"


@pytest.fixture
def site(tmp_path):
    """A folder with profile and kubeconfig."""
    (tmp_path / "prod-a.yaml").write_text(PROFILE, encoding="utf-8")
    (tmp_path / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
    return tmp_path


def _load(site, *cli):
    return profile.load("prod-a", [site], cli=cli)


def test_it_is_had_as_declared_and_left_as_it_was(site, tmp_path):
    """Nothing is started, the kubeconfig is neither copied nor changed, and no secret is in the facts."""
    run = tmp_path / "run"
    with provider.start(_load(site, f"images.python={IMAGE}"), run) as cluster:
        assert (cluster.name, cluster.provider, cluster.context) == ("prod-a", "existing", "prod-a")
        assert cluster.kubeconfig == str(site / "kubeconfig")
        assert cluster.pods_run
        assert cluster.images == {"python": IMAGE}
        assert cluster.facts == {"server": "https://10.0.0.1:6443"}
    assert (site / "kubeconfig").read_text(encoding="utf-8") == KUBECONFIG
    assert "secret-token" not in "".join(p.read_text(encoding="utf-8") for p in run.iterdir())


def test_simulated_nodes_run_no_pods(site, tmp_path):
    """A profile that declares simulated nodes gives a cluster without that feature."""
    with provider.start(_load(site, "nodes=simulated"), tmp_path / "run") as cluster:
        assert not cluster.pods_run


@pytest.mark.parametrize(
    ("content", "cli", "told"),
    [
        (None, (), "prod-a.yaml:1: kubeconfig file {site}/kubeconfig does not exist"),
        (KUBECONFIG, ("connection.context=prod-b",),
         "option --gpucluster-set: kubeconfig {site}/kubeconfig has no context 'prod-b'; did you mean 'prod-a'?"),
        ("a: [", (), "kubeconfig {site}/kubeconfig cannot be read: "),
        ("[]", (), "kubeconfig {site}/kubeconfig has no contexts and clusters"),
        ("contexts: [{}]", (), "kubeconfig {site}/kubeconfig has no contexts and clusters"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_kubeconfig_is_told_before_anything_is_asked(site, content, cli, told):
    """File, context and what is allowed stand in one line."""
    path = site / "kubeconfig"
    path.unlink()
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(provider.ProviderError) as caught:
        provider.verify(_load(site, *cli))
    assert told.format(site=site) in str(caught.value)


def test_defects_are_planted_in_the_embedded_cluster_only():
    """Unknown defects are named with the nearest; any other cluster takes none."""
    known = provider.known_defects()
    assert "node.slow-start" in known
    assert all(text and "." in name for name, text in known.items())
    provider.check_defects(["node.slow-start"], "embedded")
    provider.check_defects([], "existing")
    with pytest.raises(provider.ProviderError, match=r"unknown defect 'node.slow-strat'; did you mean"):
        provider.check_defects(["node.slow-strat"], "embedded")
    with pytest.raises(provider.ProviderError, match="embedded cluster only, but this one is 'existing'"):
        provider.check_defects(["node.slow-start"], "existing")
