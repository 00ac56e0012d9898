"""Values of a profile that Kubernetes, a container runtime or the suite itself would refuse later."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from pytest_gpucluster import profile
from pytest_gpucluster.profile import schema

COMPLETE = {
    "connection": {"kubeconfig": "kubeconfig", "context": "prod-a"},
    "scheduler": "volcano",
    "queue": "training",
    "gpu_resource": "nvidia.com/gpu",
    "gpus_per_node": 8,
}
TOLERATION = "overlay.spec.tolerations.0"


def refused(tmp_path, *changes, **more):
    """Return the error line of a profile with other keys."""
    data = COMPLETE | more
    (tmp_path / "prod-a.yaml").write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("prod-a", [tmp_path], cli=changes)
    text = str(caught.value)
    assert "\n" not in text
    return text


def tolerations(**one):
    """Return an overlay with one toleration."""
    return {"spec": {"tolerations": [one]}}


def stored(local=None, **durable):
    """Return a section of storage."""
    return {"storage": {"durable": durable, **({"local": local} if local else {})}}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"namespace": "Team_A"}, "namespace = 'Team_A': must be a name that Kubernetes takes: lower-case letters,"),
        ({"namespace": "a.b"}, "did you mean 'a-b'?"),
        ({"namespace": "a" * 64}, "must have at most 63 characters, has 64"),
        ({"lease_namespace": ""}, "lease_namespace: is empty (wanted: namespace of the Lease with which"),
        ({"namespaces": {"volcano": "Volcano"}}, "namespaces.volcano = 'Volcano': must be a name"),
        ({"pool_label": "node pool"}, "pool_label = 'node pool': must be the key of a label, NAME or DOMAIN/NAME"),
        ({"pool_label": f"a/{'b' * 64}"}, "must have at most 63 characters after the slash, has 64"),
        ({"queue": "q", "conformance_queue": "q"}, "must name another queue than `queue`"),
        ({"further_schedulers": ["volcano"]}, "must name another scheduler than `scheduler` does"),
        ({"further_schedulers": ["native", "native"]}, "must name another scheduler than an earlier entry does"),
        ({"kueue": {"local_queue": "Team A"}}, "kueue.local_queue = 'Team A': must be a name"),
        ({"kueue": {"cluster_queue": ""}}, "kueue.cluster_queue: is empty (wanted: ClusterQueue whose quota"),
        ({"numa": {"functions": "memory"}}, "numa.functions = 'memory': must be the name of a resource of a device"),
        ({"rdma": {"resource": "hca", "per_node": 4}}, "rdma.resource = 'hca': must be the name of a resource of a"),
        ({"rdma": {"resource": "nvidia.com/gpu", "per_node": 4}}, "rdma.resource = 'nvidia.com/gpu': must be a re"),
        ({"rdma": {"resource": "rdma/hca", "per_node": 0}}, "rdma.per_node = 0: must be 1 or greater"),
        ({"rdma": {"resource": "rdma/hca", "per_node": 4, "networks": ["roce"]}},
         "rdma.networks.0 = 'roce': must be a network with its namespace, NAMESPACE/NAME, such as default/roce"),
        ({"numa": {"functions": "nvidia.com/gpu"}}, "numa.functions = 'nvidia.com/gpu': must be a resource of network"),
        ({"numa": {"qos": "BestEffort", "cpus": 2}}, "numa.cpus = 2: must be left out with `qos: BestEffort`"),
        ({"images": {"torch": "Registry/Torch:1"}}, "images.torch = 'Registry/Torch:1': must be an image such as"),
        ({"images": {"torch": "torch@sha256:12"}}, "images.torch = 'torch@sha256:12': must be an image"),
        ({"interface": "eth 0"}, "interface = 'eth 0': must be the name of a network interface"),
        ({"secondary": {"interface": "net1", "network": "A b"}}, "secondary.network = 'A b': must be a network as"),
        ({"fabric": {"hcas": ["=mlx5_0"]}}, "fabric.hcas.0 = '=mlx5_0': must be the name of one adapter, such as "),
        ({"fabric": {"network": "IB ext"}}, "fabric.network = 'IB ext': must be one word"),
        ({"elastic": {"min": 3}}, "elastic.min = 3: must be less than `max` = 3: else nothing can shrink"),
        ({"elastic": {"reform": 60, "last_call_timeout": 60}},
         "elastic.reform = 60: must be more than `last_call_timeout` = 60: a smaller world waits so long"),
        ({"elastic": {"backend": "etcd"}}, "elastic.backend = 'etcd': is not known; did you mean 'etcd-v2'?"),
        ({"elastic": {"endpoint": "http://etcd:2379"}}, "elastic.endpoint = 'http://etcd:2379': must be HOST:PORT"),
        ({"elastic": {"endpoint": "etcd"}}, "elastic.endpoint = 'etcd': must be HOST:PORT"),
        ({"elastic": {"checkpoints": {"claim": "a"}}},
         "elastic.checkpoints: is no key any more, elastic jobs save on the volume of storage.durable: write"),
        ({"elastic": {"backend": "c10d", "endpoint": "etcd:2379"}},
         "elastic.endpoint = 'etcd:2379': must be left out with `backend: c10d`"),
        (stored(source="claim"), "storage.durable.name: with `source: claim` must be a name that Kubernetes takes"),
        (stored(source="host_path", name="a/b"),
         "storage.durable.name = 'a/b': with `source: host_path` must be an absolute path; did you mean '/a/b'?"),
        (stored(source="empty_dir"), "storage.durable.source = 'empty_dir': must be claim, storage_class or host_path"),
        (stored(source="storage_class", name="a", access="ReadWriteOnce"),
         "storage.durable.access = 'ReadWriteOnce': must be ReadWriteMany: 2 nodes save together (storage.nodes)"),
        (stored(source="claim", name="a", size="10GB"),
         "storage.durable.size = '10GB': must be a size of Kubernetes, such as 200Gi; did you mean '10G'?"),
        (stored(source="claim", name="a", local={"source": "claim", "name": "b"}),
         "storage.local.source = 'claim': must have the source host_path or empty_dir"),
        (stored(source="claim", name="a", local={"source": "empty_dir", "name": "b"}),
         "storage.local.name = 'b': must be left out with `source: empty_dir`"),
        ({"storage": None}, "storage: is empty: declare at least `storage.durable`, or leave the key out"),
        ({"mfu": {"training": {"width": 100, "heads": 3}}}, "mfu.training.width = 100: must be a multiple of `heads`"),
        ({"versions": {"volcano": []}}, "versions.volcano: must not be empty"),
        ({"addons": {"kueue": {"source": "x"}}}, "addons: is read for `provider: kind` only, but this is existing"),
        ({"host": {"nodes": 2}}, "host: is read for `provider: host` only"),
        ({"kind": {"name": "a"}}, "kind: is read for `provider: kind` only"),
        ({"waivers": [{"id": "GANG-001", "reason": "r", "owner": "o", "expires": "31.3.2027"}]},
         "waivers.0.expires = '31.3.2027': must be a date, such as 2027-03-31"),
        ({"overlay": tolerations(key="a", operator="Exist")},
         f"{TOLERATION}.operator = 'Exist': is not known; did you mean 'Exists'? (allowed: Equal, Exists, Gt, Lt)"),
        ({"overlay": tolerations(key="a", operator="Exists", effect="NoSchedul")},
         f"{TOLERATION}.effect = 'NoSchedul': is not known; did you mean 'NoSchedule'? (allowed: NoExecute,"),
        ({"overlay": tolerations(key="a", operator="Exists", value="b")}, f"{TOLERATION}.value = 'b': must be left"),
        ({"overlay": tolerations(operator="Equal", value="b")}, f"{TOLERATION}: must have a key, or `operator:"),
        ({"overlay": tolerations(key="a", tolerationSeconds=3)}, f"{TOLERATION}.tolerationSeconds = 3: must be"),
        ({"overlay": tolerations(key="a b")}, f"{TOLERATION}.key = 'a b': must be the key of a label"),
        ({"overlay": {"spec": {"tolerations": {"key": "a"}}}}, "overlay.spec.tolerations: must be a list"),
        ({"overlay": {"spec": {"hostNetwork": "yes"}}}, "overlay.spec.hostNetwork = 'yes': must be true or false"),
        ({"overlay": {"spec": {"priority": "7"}}}, "overlay.spec.priority = '7': must be a whole number"),
        ({"overlay": {"spec": {"nodeName": "a"}}}, "overlay.spec.nodeName = 'a': must be left out: with it no"),
        ({"overlay": {"spec": {"nodeSelector": {"pool": 3}}}}, "nodeSelector.pool = 3: must be a text: quote it"),
        ({"overlay": {"metadata": {"labels": {"team": "a b"}}}}, "labels.team = 'a b': must be the value of a label"),
        ({"overlay": {"metadata": {"labels": {"a b": "c"}}}}, "labels.a b: the key must be the key of a label"),
        ({"overlay": {"metadata": {"annotations": {"a b": "c"}}}}, "annotations.a b: the key must be"),
        ({"overlay": {"spec": {"imagePullSecrets": [{"name": "A!"}]}}}, "imagePullSecrets.0.name = 'A!': must be a"),
        ({"overlay": {"spec": {"priorityClassName": None}}}, "overlay.spec.priorityClassName: is empty"),
    ],
)  # fmt: skip
def test_a_value_that_would_be_refused_later_is_refused_at_once(tmp_path, more, told):
    """What, where, what is wanted or allowed, and the nearest that would do."""
    text = refused(tmp_path, **more)
    assert text.startswith(f"{tmp_path}/prod-a.yaml:")
    assert told in text


@pytest.mark.parametrize(
    "more",
    [
        {"gpu_resource": "nvidia.com/mig-1g.10gb"},
        {"gpu_resource": "nvidia.com/gpu.shared"},
        {"queue": "team-a.eu"},
        {"pool_label": "example.com/Pool_1"},
        {"scheduler": "native", "further_schedulers": ["volcano"]},
        {
            "images": {
                "torch": f"registry.example:5000/team/torch:2.9_cu13@sha256:{'0' * 64}",
                "python": "python",
            }
        },
        {"fabric": {"hcas": ["mlx5_0:1", "bnxt_re0", "rdmap0s6-rdma"], "network": "IBext_v8"}},
        {"secondary": {"interface": "net1", "network": "kube-system/fast@net1, slow"}},
        {"secondary": {"interface": "net1", "network": '[{"name": "fast"}]'}},
        {"numa": {"functions": "rdma/hca_shared_devices_a", "qos": "Guaranteed", "cpus": 4}},
        {"overlay": tolerations(operator="Exists")},
        {"overlay": tolerations(key="a", value="b", effect="NoExecute", tolerationSeconds=3)},
        {"overlay": tolerations(key="a", operator="Equal", value="")},
        {
            "overlay": {
                "spec": {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": 1024}}]}
            }
        },
        {
            "overlay": {
                "spec": {
                    "overhead": {"cpu": 1},
                    "securityContext": {"runAsUser": 0, "supplementalGroups": [1]},
                }
            }
        },
        {"overlay": {"metadata": {"annotations": {"sidecar.istio.io/inject": "false", "x": "any text: {}"}}}},
        {
            "overlay": {
                "spec": {"containers": [{"name": "a", "ports": [{"containerPort": 1, "hostPort": 1}]}]}
            }
        },
        {"host": {}, "kind": {}},
    ],
)
def test_what_clusters_have_is_taken(tmp_path, more):
    """Names of any vendor, pools, networks and volumes as their documentation writes them."""
    (tmp_path / "prod-a.yaml").write_text(yaml.safe_dump(COMPLETE | more), encoding="utf-8")
    profile.load("prod-a", [tmp_path])


def leaves(model: Mapping[str, Any], models: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the path of each leaf of the schema that no list or mapping of names lies above."""
    for key, value in model["properties"].items():
        inner = [value, *value.get("anyOf", ())]
        refs = [str(each["$ref"]).rpartition("/")[2] for each in inner if "$ref" in each]
        if refs:
            yield from leaves(models[refs[0]], models, f"{path}{key}.")
        else:
            yield path + key


def every_leaf() -> list[str]:
    """Return the paths of all leaves."""
    whole = schema.file_schema()
    return list(leaves(whole, whole["$defs"]))


def test_whatever_stands_at_a_leaf_is_told_in_our_words(tmp_path):
    """A value of another kind: one line that names the leaf, none in the words of a library."""
    paths = [path for path in every_leaf() if not path.startswith("connection.")]
    assert len(paths) > 60
    for path in paths:
        for wrong in ("{a b: c}", "[[], 3]", '"\\u0007 A!"', "2.5e300", ".nan", "true", '""'):
            try:
                profile.load("embedded", cli=[f"{path}={wrong}"])
            except profile.ProfileError as error:
                above = path.rpartition(".")[0]
                for text in str(error).splitlines():
                    assert text.startswith(f"option --gpucluster-set: {above or path}"), (path, wrong, text)
                    assert "nput should" not in text, (path, wrong, text)
                assert len(text) < 400, text
