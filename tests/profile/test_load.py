"""How a profile is found, layered and validated."""

import json
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
import yaml

from pytest_gpucluster import profile
from pytest_gpucluster.plain import schedulers
from pytest_gpucluster.profile import model, schema

FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "profiles"

COMPLETE = """\
connection:
  kubeconfig: kubeconfig
  context: prod-a
scheduler: volcano
queue: training
gpu_resource: nvidia.com/gpu
gpus_per_node: 8
"""


@pytest.fixture
def write(tmp_path):
    """Write `prod-a.yaml`: the five required keys, and what is given after them."""

    def write(more="", *, text=COMPLETE, name="prod-a"):
        (tmp_path / f"{name}.yaml").write_text(text + more, encoding="utf-8")
        return tmp_path

    return write


def test_the_built_in_profile_needs_no_file():
    """`embedded` is complete as it is and waits only briefly."""
    loaded = profile.load("embedded")
    assert loaded.profile.provider == "embedded"
    assert loaded.profile.connection is None
    assert loaded.profile.window_length(3) == 0.5
    assert loaded.profile.window_length(100) == pytest.approx(5.0)
    assert set(loaded.profile.budgets) == set(profile.BUDGETS)


def test_five_keys_make_a_profile(write):
    """A file with the five required keys is complete; the rest has defaults."""
    loaded = profile.load("prod-a", [write()])
    assert loaded.profile.name == "prod-a"
    assert loaded.profile.provider == "existing"
    assert loaded.profile.window == 5.0
    assert loaded.profile.images == {}
    assert loaded.sources["queue"].endswith("prod-a.yaml:5")
    assert loaded.sources["window"] == "default"


def test_alignment_is_declared_by_a_mapping(write):
    """`numa: {}` declares single-numa-node for whole pods on two NUMA nodes; without the key nothing is declared."""
    assert profile.load("prod-a", [write()]).profile.numa is None
    declared = profile.load("prod-a", [write("numa: {}\n")]).profile.numa
    assert (declared.policy, declared.scope, declared.nodes) == ("single-numa-node", "pod", 2)
    assert (declared.qos, declared.cpus) == (None, None)


def test_the_fabric_is_declared_by_a_mapping(write):
    """`fabric: {}` lets the rows run and declares nothing; floors state their own shape and origin."""
    assert profile.load("prod-a", [write()]).profile.fabric is None
    bare = profile.load("prod-a", [write("fabric: {}\n")]).profile.fabric
    assert (bare.device, bare.nodes, bare.pods_per_node, bare.transport) == ("gpu", None, 1, None)
    assert (bare.floors, bare.floor_file, dict(bare.env)) == ((), None, {})
    floor = (
        "{collective: all_reduce, size: 1073741824, busbw: 380.0, nodes: 2, gpus: 8, origin: run of March}"
    )
    told = profile.load("prod-a", [write(f"fabric: {{transport: NET/IB, floors: [{floor}]}}\n")]).profile
    assert told.fabric.floors[0].busbw == 380.0
    assert profile.load("embedded").profile.fabric.device == "cpu"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("transport: NET/IBB", "fabric.transport = 'NET/IBB': is not known; did you mean 'NET/IB'?"),
        ("trasport: NET/IB", "fabric.trasport: unknown key; did you mean 'transport'?"),
        ("nics_per_node: 0", "fabric.nics_per_node = 0: must be 1 or greater"),
        ("slow_share: 2.0", "fabric.slow_share = 2.0: must be 1 or less"),
        ("env: {NCCL-NET: IB}", "fabric.env.NCCL-NET: is not the name of a variable, such as NCCL_IB_HCA"),
        ("env: {NCCL_IB_DISABLE: 1}", "fabric.env.NCCL_IB_DISABLE = 1: must be a text: quote it"),
        (
            "floor_file: bus_bandwith",
            "fabric.floor_file = 'bus_bandwith': is not known; did you mean 'bus_bandwidth'?",
        ),
        (
            "floors: [{collective: all_reduce, size: 1, busbw: 1.0, origin: us, nodez: 2}]",
            "fabric.floors.0.nodez: unknown key; did you mean 'nodes'?",
        ),
    ],
)
def test_mistakes_in_the_fabric_are_one_line(write, text, problem):
    """What, where, what is allowed, and the nearest match."""
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("prod-a", [write(f"fabric: {{{text}}}\n")])
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_speed_is_declared_by_a_mapping(write):
    """`mfu: {}` lets the rows run and declares nothing; a baseline is looked for beside the profile."""
    assert profile.load("prod-a", [write()]).profile.mfu is None
    bare = profile.load("prod-a", [write("mfu: {}\n")]).profile.mfu
    assert (bare.device, bare.floors, bare.spread, bare.training.mfu, bare.baseline) == (
        "gpu", (), None, None, None,
    )  # fmt: skip
    text = "mfu: {baseline: runs/1/report.json, floors: [{format: bf16, share: 0.7, origin: us}]}\n"
    path = write(text)
    told = profile.load("prod-a", [path]).profile.mfu
    assert told.baseline == str(path / "runs" / "1" / "report.json")
    assert told.floors[0].share == 0.7
    assert profile.load("embedded").profile.mfu.device == "cpu"
    assert profile.load("host").profile.mfu.device == "gpu"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("spred: 0.05", "mfu.spred: unknown key; did you mean 'spread'?"),
        ("spread: 1.5", "mfu.spread = 1.5: must be 1 or less"),
        ("floor_file: product", "mfu.floor_file = 'product': is not known; did you mean 'products'?"),
        ("floors: [{format: bf16, origin: us}]", "mfu.floors.0: must have either `share` or `tflops`"),
        (
            "floors: [{format: bf16, share: 0.7, tflops: 1.0, origin: us}]",
            "must have either `share` or `tflops`",
        ),
        ("floors: [{format: bf16, share: 0.7}]", "mfu.floors.0.origin: is missing"),
        (
            "floors: [{format: bf16, share: 0.7, origin: us, devise: H100}]",
            "unknown key; did you mean 'device'?",
        ),
        ("training: {mfu: 0.4}", "mfu.training: must have both `mfu` and `origin`, or neither"),
        ("training: {layer: 3}", "mfu.training.layer: unknown key; did you mean 'layers'?"),
        ("training: {mfu: 40.0, origin: us}", "mfu.training.mfu = 40.0: must be 1 or less"),
        ("peaks: {bf16: 989.4}", "mfu: must have both `peaks` and `peaks_origin`, or neither"),
        ("peaks: {bf17: 989.4}, peaks_origin: us", "mfu.peaks.bf17"),
    ],
)
def test_mistakes_in_the_speed_are_one_line(write, text, problem):
    """What, where, what is allowed, and the nearest match."""
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("prod-a", [write(f"mfu: {{{text}}}\n")])
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_kueue_is_declared_by_a_mapping_also_an_empty_one(write):
    """Without the key Kueue is not declared; the embedded cluster declares it, and native gangs beside Volcano's."""
    assert profile.load("prod-a", [write()]).profile.kueue is None
    with pytest.raises(profile.ProfileError, match="kueue: is missing: jobs behind it need"):
        profile.load("prod-a", [write()], cli=["scheduler=kueue"])
    declared = profile.load("prod-a", [write("kueue: {}\n")]).profile.kueue
    assert declared == profile.Kueue()
    told = profile.load("prod-a", [write("kueue: {wait_for_pods_ready: 300}\n")]).profile.kueue
    assert told is not None
    assert told.wait_for_pods_ready == 300.0
    embedded = profile.load("embedded").profile
    assert embedded.kueue is not None
    assert embedded.further_schedulers == ("native",)


def test_a_second_interface_is_declared_by_name(write):
    """The interface must be named; the network only where pods ask for it."""
    assert profile.load("prod-a", [write()]).profile.secondary is None
    tunnel = profile.load("prod-a", [write("secondary: {interface: wg0}\n")]).profile.secondary
    assert tunnel == profile.Secondary(interface="wg0")
    for text, problem in (
        ("{network: fast}", "secondary.interface: is missing"),
        ("{interface: net1, networks: fast}", "did you mean 'network'"),
        ("{interface: a-name-of-sixteen}", "secondary.interface"),
    ):
        with pytest.raises(profile.ProfileError) as caught:
            profile.load("prod-a", [write(f"secondary: {text}\n")])
        assert problem in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["connection", "scheduler", "queue", "gpu_resource", "gpus_per_node"])
def test_each_required_key_is_missed_by_name(write, key):
    """A file without one of the five keys is told which, and that all five are required."""
    data = yaml.safe_load(COMPLETE)
    del data[key]
    folder = write(text=yaml.safe_dump(data))
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("prod-a", [folder])
    assert str(caught.value) == (
        f"{folder}/prod-a.yaml: {key}: is missing "
        "(required: connection, scheduler, queue, gpu_resource, gpus_per_node)"
    )


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("connection", "conection"), ("scheduler", "schedular"), ("scheduler", "schedulers"), ("queue", "Queue"),
        ("gpu_resource", "gpu-resource"), ("gpus_per_node", "gpu_per_node"), ("gpus_per_node", "gpus_pernode"),
    ],
)  # fmt: skip
def test_a_misspelt_required_key_is_not_called_missing(write, key, word):
    """Where it stands, what it was meant for, what is allowed; whoever reads `is missing` looks in vain."""
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("prod-a", [write(text=COMPLETE.replace(f"{key}:", f"{word}:"))])
    text = str(caught.value)
    assert f": {word}: unknown key: {key!r} is required, and misspelt here; did you mean {key!r}?" in text
    assert "prod-a.yaml:" in text
    assert "is missing" not in text


def test_all_mistakes_are_told_in_one_go(write):
    """A line for each, none of them twice: what is missing, misspelt, misplaced, unknown, of a wrong kind, empty."""
    text = """
connection: {kubeconfig: /k}
context: a
schedular: volcano
queue:
gpus_per_node: eight
budgets: {bnd: 3, run: 0}
nodes: reel
numa:
"""
    folder = write(text=text)
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("prod-a", [folder])
    file = f"{folder}/prod-a.yaml"
    told = [line.removeprefix(file) for line in str(caught.value).splitlines()]
    begins = (
        ":4: schedular: unknown key: 'scheduler' is required, and misspelt here; did you mean 'scheduler'?",
        ":5: queue: is empty (wanted: queue into which training is",
        ": gpu_resource: is missing (required: connection, scheduler,",
        ":3: context: stands at the wrong place: move it into `connection`",
        ":9: numa: is empty: write `numa: {}`",
        ":6: gpus_per_node = 'eight': must be a whole number",
        ":7: budgets.bnd: unknown key; did you mean 'bind'?",
        ":7: budgets.run = 0: must be greater than 0",
        ":8: nodes = 'reel': is not known; did you mean 'real'?",
    )
    assert len(told) == len(begins), told
    for begin in begins:
        assert any(line.startswith(begin) for line in told), (begin, told)
    assert len(caught.value.others) == len(begins) - 1


def test_a_required_key_at_another_place_is_told_where(write):
    """Of the two that could be meant by `is missing` the one that helps."""
    text = COMPLETE.replace("queue: training\n", "").replace(
        "  context: prod-a\n", "  context: prod-a\n  queue: a\n"
    )
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("prod-a", [write(text=text)])
    assert "connection.queue: stands at the wrong place: move it to the top" in str(caught.value)
    assert "is missing" not in str(caught.value)


@pytest.mark.parametrize("word", ["volcanoo", "Volcano", "vulcano", "kueu", "nativ", "slurm", "default"])
def test_an_unknown_scheduler_is_an_error(write, word):
    """A scheduler that no row knows would leave all of them without an object, and no row red."""
    folder = write(text=COMPLETE.replace("scheduler: volcano", f"scheduler: {word}"))
    allowed = "(allowed: default-scheduler, kueue, native, volcano)"
    with pytest.raises(profile.ProfileError, match=f"scheduler = '{word}': is not known") as caught:
        profile.load("prod-a", [folder])
    assert str(caught.value).startswith(f"{folder}/prod-a.yaml:4: ")
    assert str(caught.value).endswith(allowed)
    with pytest.raises(profile.ProfileError, match="option --gpucluster-set: scheduler = "):
        profile.load("embedded", cli=[f"scheduler={word}"])


def test_the_schedulers_of_the_model_are_those_that_a_gang_can_be_written_for():
    """One list for the profile and one for the dialects: the same words."""
    assert set(get_args(model.SchedulerName)) == set(schedulers.NAMES)
    assert set(get_args(model.FurtherScheduler)) < set(schedulers.NAMES)


def test_later_layers_win_and_each_leaf_knows_its_source(write):
    """Default, profile, environment, ini and command line, each above the one before."""
    folder = write("budgets: {bind: 11, run: 12, start: 13, finish: 14}\n")
    loaded = profile.load(
        "prod-a",
        [folder],
        env={
            "GPUCLUSTER_BUDGETS__RUN": "22",
            "GPUCLUSTER_BUDGETS__START": "23",
            "GPUCLUSTER_BUDGETS__FINISH": "24",
        },
        ini=["budgets.start=33", "budgets.finish = 34"],
        cli=["budgets.finish=44"],
    )
    assert {name: loaded.profile.budgets[name] for name in ("enqueue", "bind", "run", "start", "finish")} == {
        "enqueue": 60.0, "bind": 11.0, "run": 22.0, "start": 33.0, "finish": 44.0,
    }  # fmt: skip
    assert loaded.sources["budgets.enqueue"] == "default"
    assert loaded.sources["budgets.bind"].endswith("prod-a.yaml:8")
    assert loaded.overridden() == {
        "budgets.run": (22.0, "environment GPUCLUSTER_BUDGETS__RUN"),
        "budgets.start": (33.0, "ini gpucluster_set"),
        "budgets.finish": (44.0, "option --gpucluster-set"),
    }


@pytest.mark.parametrize("name", ["embedded", "kind", "host"])
@pytest.mark.parametrize("scheduler", ["native", "volcano"])
def test_further_schedulers_that_nobody_declared_leave_out_the_one_that_was(name, scheduler):
    """Whoever names another scheduler for a built-in cluster has said all that there is to say."""
    loaded = profile.load(name, cli=[f"scheduler={scheduler}"])
    assert scheduler not in loaded.profile.further_schedulers
    with pytest.raises(profile.ProfileError, match="must name another scheduler"):
        profile.load(name, cli=["scheduler=native", "further_schedulers=[native]"])


def test_vendor_facts_follow_the_gpu_resource(write):
    """Pods tolerate the taint of the declared GPU resource, wherever it was declared."""
    loaded = profile.load("prod-a", [write()], env={"GPUCLUSTER_GPU_RESOURCE": "amd.com/gpu"})
    assert loaded.profile.overlay["spec"]["tolerations"][0]["key"] == "amd.com/gpu"
    assert loaded.sources["overlay.spec.tolerations"] == "vendor facts"


def test_a_declared_list_replaces_that_of_the_vendor(write):
    """A list is a leaf: the profile's tolerations replace the vendor's, other parts of the overlay stay."""
    more = (
        "overlay: {spec: {tolerations: [], nodeSelector: {pool: a}}, metadata: {annotations: {a/b.c: x}}}\n"
    )
    loaded = profile.load("prod-a", [write(more)])
    assert loaded.profile.overlay == {
        "spec": {"tolerations": [], "nodeSelector": {"pool": "a"}},
        "metadata": {"annotations": {"a/b.c": "x"}},
    }


def test_paths_of_kubeconfigs_are_absolute(write, monkeypatch):
    """A relative path starts at the profile, `~` is the home folder."""
    folder = write()
    connection = profile.load("prod-a", [folder]).profile.connection
    assert connection.kubeconfig == str(folder / "kubeconfig")
    monkeypatch.setenv("HOME", "/home/someone")
    loaded = profile.load("prod-a", [folder], cli=["connection.kubeconfig=~/k"])
    assert loaded.profile.connection.kubeconfig == "/home/someone/k"


def test_the_first_folder_that_has_the_file_wins(tmp_path):
    """Folders are searched in order; `.yml` serves too."""
    for name, queue in (("one", "first"), ("two", "second")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "prod-a.yml").write_text(COMPLETE.replace("training", queue), encoding="utf-8")
    assert (
        profile.load("prod-a", [tmp_path / "none", tmp_path / "two", tmp_path / "one"]).profile.queue
        == "second"
    )


def test_known_names_are_profiles_only(tmp_path):
    """YAML files that are no profile are not offered as clusters."""
    (tmp_path / "prod-a.yaml").write_text(COMPLETE, encoding="utf-8")
    (tmp_path / "compose.yaml").write_text("services: {}\n", encoding="utf-8")
    (tmp_path / "broken.yaml").write_text("a: [", encoding="utf-8")
    assert list(profile.known_names([tmp_path])) == ["embedded", "host", "kind", "prod-a"]


def test_a_file_may_begin_with_what_a_host_has(tmp_path):
    """A profile of the provider host declares what differs; the rest is that of the built-in one."""
    text = "provider: host\nhost: {nodes: 2}\ngpus_per_node: 4\n"
    (tmp_path / "box.yaml").write_text(text, encoding="utf-8")
    loaded = profile.load("box", [tmp_path])
    assert (loaded.profile.host.nodes, loaded.profile.scheduler) == (2, "volcano")
    assert loaded.sources["scheduler"] == "profile host"
    assert loaded.sources["gpus_per_node"] == f"{tmp_path / 'box.yaml'}:3"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            "queu: x\n",
            "queu: unknown key; did you mean 'queue'? (allowed: queue, kueue, conformance_queue, gpu_resource,",
        ),
        (
            "budgets: {bnd: 3}\n",
            "prod-a.yaml:8: budgets.bnd: unknown key; did you mean 'bind'? (allowed: admission,",
        ),
        (
            "images: {pyton: x}\n",
            "images.pyton: unknown key; did you mean 'python'? (allowed: etcd, mpi, python, torch)",
        ),
        (
            "overlay: {specs: {}}\n",
            "overlay.specs: unknown key; did you mean 'spec'? (allowed: metadata, spec)",
        ),
        (
            "nodes: reel\n",
            "nodes = 'reel': is not known; did you mean 'real'? (allowed: process, real, simulated)",
        ),
        ("provider: existng\n", "provider = 'existng': is not known; did you mean 'existing'?"),
        ("slots: yes\n", "slots = 'yes': must be true or false"),
        ("slots: 1\n", "slots = 1: must be true or false"),
        ("budgets: {bind: 0}\n", "budgets.bind = 0: must be greater than 0"),
        ("budgets: {bind: .inf}\n", "budgets.bind = inf: must be finite"),
        ("budgets: {bind: '3'}\n", "budgets.bind = '3': must be a number, without quotes"),
        (
            "budgets: {bind: 010}\n",
            "budgets.bind = '010': must be a number, without quotes and without a leading zero",
        ),
        ("budgets: {bind: 1:30}\n", "budgets.bind = '1:30': must be a number"),
        ("budgets: [3]\n", "budgets: must be a mapping"),
        ("window: 1\n", "prod-a.yaml:8: window = 1: must be at least 5: a profile may lengthen the window"),
        ("name: other\n", "prod-a.yaml:8: name: the file's name is the name"),
        ("queue: again\n", "prod-a.yaml:8: queue: the key appears twice, first in line 5"),
        (
            "budgets:\n  bind: 1\n  bind: 2\n",
            "prod-a.yaml:10: budgets.bind: the key appears twice, first in line 9",
        ),
        ("on: 1\n", "on: unknown key"),
        ("7: 1\n", "a key must be a text: quote it"),
        ("waivers: [{id: GANG-1, reason: r, owner: o, expires: 2027-01-01}]\n", "waivers.0.id = 'GANG-1':"),
        ("waivers: [{id: GANG-001, reason: r, owner: o, expires: soon}]\n", "waivers.0.expires = 'soon':"),
        ("numa\n# a remark\nkueue: {}\n", "prod-a.yaml:8: not valid YAML: could not find expected ':'"),
        ("a: [\n", "prod-a.yaml:9: not valid YAML:"),
        (
            "further_schedulers: [nativ]\n",
            "further_schedulers.0 = 'nativ': is not known; did you mean 'native'?",
        ),
        ("further_schedulers: native\n", "further_schedulers = 'native': must be a list"),
        ("further_schedulers: [kueue]\n", "further_schedulers.0 = 'kueue': is not known"),
        ("kueue: {cluster_quue: a}\n", "kueue.cluster_quue: unknown key; did you mean 'cluster_queue'?"),
        ("kueue: {wait_for_pods_ready: 0}\n", "kueue.wait_for_pods_ready = 0: must be greater than 0"),
        ("kueue: yes\n", "kueue = 'yes': must be a mapping"),
        ("numa: {polcy: restricted}\n", "numa.polcy: unknown key; did you mean 'policy'?"),
        ("numa: {policy: single-numa}\n", "numa.policy = 'single-numa':"),
        ("numa: {nodes: 0}\n", "numa.nodes = 0:"),
        ("numa: {cpus: half}\n", "numa.cpus = 'half':"),
        ("a: !!python/object:os.system x\n", "not valid YAML:"),
        (
            "fabric: {intra_node: NVL}\n",
            "prod-a.yaml:8: fabric.intra_node = 'NVL': is not known; did you mean",
        ),
        ("fabric: {transport: IB}\n", "fabric.transport = 'IB': is not known; did you mean 'NET/IB'?"),
        ("numa:\n", "prod-a.yaml:8: numa: is empty: write `numa: {}` to declare it, or leave the key out"),
        ("kueue: ~\n", "kueue: is empty: write `kueue: {}`"),
        (
            "overlay:\n  spec:\n    tolerations:\n    - {ky: a}\n",
            "prod-a.yaml:11: overlay.spec.tolerations.0.ky: unknown key of a pod; did you mean 'key'?",
        ),
        ("overlay: {spec: {nodeSelecter: {a: b}}}\n", "unknown key of a pod; did you mean 'nodeSelector'?"),
        ("overlay: {metadata: {annotation: {a: b}}}\n", "unknown key of a pod; did you mean 'annotations'?"),
        (
            "overlay: {spec: {securityContext: {runAsRoot: true}}}\n",
            "overlay.spec.securityContext.runAsRoot: unknown",
        ),
        (
            "fabric: {floors: [{colective: all_reduce, size: 1, busbw: 1.0, origin: us}]}\n",
            "fabric.floors.0.colective: unknown key: 'collective' is required, and misspelt here; did you mean",
        ),
        (
            "waivers:\n- {id: GANG-001, reson: r, owner: o, expires: 2027-01-01}\n",
            "prod-a.yaml:9: waivers.0.reson: unknown key: 'reason' is required, and misspelt here",
        ),
        (
            "secondary: {interfaces: net1}\n",
            "secondary.interfaces: unknown key: 'interface' is required, and misspelt",
        ),
    ],
)
def test_mistakes_are_told_with_place_path_value_and_what_is_allowed(write, more, told):
    """Each mistake is one line: where, which leaf, its value, what is allowed, what is nearest."""
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("prod-a", [write(more)])
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("training", "no"), None),
        (("training", "1e3"), "queue = 1000.0: must be a text: quote it"),
        (("training", "null"), "prod-a.yaml:5: queue: is empty (wanted: queue into which training"),
        (("training", '""'), "prod-a.yaml:5: queue: is empty"),
        (
            ("scheduler: volcano", "scheduler:"),
            "prod-a.yaml:4: scheduler = '': is empty (allowed: default-scheduler,",
        ),
        (
            ("  kubeconfig: kubeconfig", "  kubeconfig:"),
            ":2: connection.kubeconfig: is empty (wanted: path of the",
        ),
        (
            ("connection:\n  kubeconfig: kubeconfig\n  context: prod-a", "connection:"),
            ":1: connection: is empty",
        ),
        (
            ("gpus_per_node: 8", "gpus_per_node:"),
            "prod-a.yaml:7: gpus_per_node: is empty (wanted: number of GPUs",
        ),
        (("  context: prod-a", "  context: 7"), "connection.context = 7: must be a text: quote it"),
        (("  context: prod-a\n", ""), "connection.context: is missing"),
        (("gpus_per_node: 8", "gpus_per_node: 8.5"), "gpus_per_node = 8.5: must be a whole number"),
        (("gpus_per_node: 8", "gpus_per_node: -1"), "gpus_per_node = -1: must be 0 or greater"),
        (
            ("nvidia.com/gpu", "nvidia com"),
            "prod-a.yaml:6: gpu_resource = 'nvidia com': must be the name of a ",
        ),
        (
            ("nvidia.com/gpu", "cpu"),
            "gpu_resource = 'cpu': must be the name of a resource of a device plugin, DOMAIN/",
        ),
        (
            ("nvidia.com/gpu", "kubernetes.io/gpu"),
            "gpu_resource = 'kubernetes.io/gpu': must be a resource of a ",
        ),
        (("training", "Team A!"), "prod-a.yaml:5: queue = 'Team A!': must be a name that Kubernetes takes: "),
        (("training", "Team A!"), "; did you mean 'team-a'?"),
    ],
)
def test_yaml_does_not_guess(write, change, told):
    """`no` stays a text; a number where a text must stand, and the reverse, is an error."""
    folder = write(text=COMPLETE.replace(*change))
    if told is None:
        assert profile.load("prod-a", [folder]).profile.queue == "no"
        return
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("prod-a", [folder])
    assert told in str(caught.value)


def test_mistakes_in_overrides_name_their_source(write):
    """A wrong variable or option is told as such, not as a mistake of the file."""
    folder = write()
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("prod-a", [folder], env={"GPUCLUSTER_QUEU": "x"})
    assert str(caught.value).startswith(
        "environment GPUCLUSTER_QUEU: unknown variable; did you mean 'GPUCLUSTER_QUEUE'?"
    )
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("prod-a", [folder], cli=["gpus_per_node=many"])
    assert str(caught.value).startswith(
        "option --gpucluster-set: gpus_per_node = 'many': must be a whole number"
    )


def test_variables_of_kubernetes_and_twins_of_options_are_no_leaves(write):
    """A Service called gpucluster puts variables into every pod; they are not ours."""
    env = {
        "GPUCLUSTER_SERVICE_HOST": "10.0.0.1",
        "GPUCLUSTER_SERVICE_PORT_HTTP": "80",
        "GPUCLUSTER_PORT_80_TCP_ADDR": "10.0.0.1",
        "GPUCLUSTER_CLUSTER": "prod-a",
        "GPUCLUSTER_REPORT_DIR": "x",
        "HOME": "/",
    }
    assert profile.load("prod-a", [write()], env=env).overridden() == {}


def test_a_profile_is_frozen(write):
    """What was declared cannot be changed by code that reads it."""
    loaded = profile.load("prod-a", [write()])
    with pytest.raises(ValueError, match="frozen"):
        loaded.profile.queue = "other"


def test_a_profile_round_trips_through_plain_data(write):
    """The record's form of a profile is plain JSON."""
    data = profile.load("prod-a", [write()]).as_dict()
    assert json.loads(json.dumps(data)) == data


def test_the_kept_schema_is_that_of_the_model():
    """`profile.schema.json` is what the model says: `python -m pytest_gpucluster.profile.schema` writes it."""
    kept = (FIXTURES / "profile.schema.json").read_text(encoding="utf-8")
    assert kept == schema.schema_text()
    jsonschema.Draft202012Validator.check_schema(json.loads(kept))


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.yaml")), ids=lambda path: path.stem)
def test_examples_load_and_fit_the_schema(path):
    """The shipped examples are valid for the loader and for an editor that reads the schema."""
    loaded = profile.load(path.stem, [FIXTURES])
    assert loaded.file == path
    data = json.loads(json.dumps(yaml.safe_load(path.read_text(encoding="utf-8")), default=str))
    jsonschema.validate(data, schema.file_schema())


@pytest.mark.parametrize("data", [{}, {"queue": 7}, {**yaml.safe_load(COMPLETE), "queu": "x"}])
def test_the_schema_refuses_what_the_loader_refuses(data):
    """Missing keys, wrong types and unknown keys are wrong for the schema too."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema.file_schema())


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CLUSTR", "CLUSTER"), ("REPORTDIR", "REPORT_DIR"), ("MAX_GPU_SECOND", "MAX_GPU_SECONDS"),
        ("BUDGET__BIND", "BUDGETS__BIND"), ("Queu", "QUEUE"), ("XYZ", None), ("", None),
    ],
)  # fmt: skip
def test_a_misspelt_variable_is_told_with_the_nearest(write, name, meant):
    """Of options and of keys; what is like none is told without a guess."""
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("prod-a", [write()], env={f"GPUCLUSTER_{name}": "3"})
    told = str(caught.value)
    assert told.startswith(f"environment GPUCLUSTER_{name}: unknown variable")
    assert (f"did you mean 'GPUCLUSTER_{meant}'?" in told) if meant else ("did you mean" not in told)
    assert "pytest --help" in told
    assert "gpucluster describe keys" in told


def test_a_file_may_be_of_the_embedded_cluster(write):
    """So waivers, windows and budgets can be tried before there is a cluster: the rest is as it is built in."""
    folder = write(name="try", text=f"provider: embedded\nwindow: 0.75\n{WAIVED}")
    loaded = profile.load("try", [folder])
    built_in = profile.load("embedded").profile.model_dump()
    assert loaded.profile.model_dump() == built_in | {
        "name": "try", "window": 0.75, "waivers": loaded.profile.waivers and tuple(
            each.model_dump() for each in loaded.profile.waivers
        ),
    }  # fmt: skip
    assert loaded.sources["window"].endswith("try.yaml:2")
    assert loaded.sources["queue"] == "profile embedded"
    assert [each.id for each in loaded.profile.waivers] == ["GANG-007"]
    assert "try" in profile.known_names([folder])


@pytest.mark.parametrize(
    "key", ["connection: {kubeconfig: a, context: b}", "kind: {name: a}", "host: {nodes: 2}"]
)
def test_a_file_of_the_embedded_cluster_refuses_what_another_provider_reads(write, key):
    """It would do nothing."""
    with pytest.raises(profile.ProfileError, match=r"is read for .* only, but this is embedded"):
        profile.load("try", [write(name="try", text=f"provider: embedded\n{key}\n")])


WAIVED = "waivers: [{id: GANG-007, reason: tried, owner: me, expires: 2099-01-01}]\n"
