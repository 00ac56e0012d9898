"""Job plugins: arguments, hosts, keys, and the life of what they create."""

import base64
import shutil
import subprocess

import pytest

from pytest_gpucluster.embedded.volcano.plugins import flags, keys
from pytest_gpucluster.embedded.volcano.plugins.base import add_port, hosts
from pytest_gpucluster.embedded.volcano.plugins.mpi import missing_task
from pytest_gpucluster.embedded.volcano.plugins.pytorch import PytorchPlugin
from pytest_gpucluster.embedded.volcano.plugins.registry import UnknownPluginError, plugins_of
from pytest_gpucluster.embedded.volcano.plugins.ssh import SshPlugin
from pytest_gpucluster.plain.copies import clone

TASKS = [
    {"name": "master", "replicas": 1, "template": {"spec": {}}},
    {"name": "worker", "replicas": 2, "template": {"spec": {}}},
    {"name": "side", "replicas": 1, "template": {"spec": {}}},
]
JOB = {"metadata": {"name": "j", "namespace": "n", "uid": "u"}, "spec": {"tasks": TASKS}}


def nothing_is_wrong(_):
    """Report no defect."""
    return False


def pod_of(plugin, task, index=0):
    """Return a pod of the Job after a plugin has seen it."""
    pod = {"metadata": {"name": f"j-{task['name']}-{index}"}, "spec": {"containers": [{}]}}
    plugin.on_pod(pod, JOB, task, index)
    return pod


def env_of(pod):
    """Return the environment of its container."""
    return {e["name"]: e["value"] for e in pod["spec"]["containers"][0].get("env", [])}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"port": "1", "on": "false"}),
        (["--port=2"], {"port": "2", "on": "false"}),
        (["-port=2", "--on"], {"port": "2", "on": "true"}),
        (["--nosuch=1", "--port=2"], {"port": "1", "on": "false"}),
        (["--port=2", "word", "--on"], {"port": "2", "on": "false"}),
    ],
)
def test_arguments_end_at_the_first_unknown_one(arguments, expected):
    """An unknown argument and all after it are ignored; what came before counts."""
    assert flags.parse(arguments, {"port": "1", "on": "false"}) == expected


def test_world_size_counts_master_and_worker_only():
    """WORLD_SIZE leaves out other tasks, and such a task has no RANK."""
    plugin = PytorchPlugin(["--port=29500"])
    side = env_of(pod_of(plugin, TASKS[2]))
    assert side == {"MASTER_ADDR": "j-master-0.j", "MASTER_PORT": "29500", "WORLD_SIZE": "3"}
    assert env_of(pod_of(plugin, TASKS[1], 1))["RANK"] == "2"


def test_no_master_task_means_no_variables():
    """Without a task of the master's name nothing is injected, not even the port."""
    pod = pod_of(PytorchPlugin(["--master=chief"]), TASKS[1])
    assert pod["spec"]["containers"] == [{}]


def test_a_malformed_port_falls_back():
    """A port that is no number is the default port."""
    assert env_of(pod_of(PytorchPlugin(["--port=abc"]), TASKS[0]))["MASTER_PORT"] == "23456"


def test_only_workers_wait_for_the_master():
    """The waiting init container is added to workers, with the stated image."""
    plugin = PytorchPlugin(["--wait-master-enabled=true", "--wait-master-image=tiny:1"])
    (waits,) = pod_of(plugin, TASKS[1])["spec"]["initContainers"]
    assert (waits["name"], waits["image"]) == ("wait-for-master", "tiny:1")
    assert "j-master-0.j 23456" in waits["command"][-1]
    assert "initContainers" not in pod_of(plugin, TASKS[0])["spec"]


def test_the_waiting_loop_is_valid_shell():
    """The shell accepts the script of the waiting container."""
    plugin = PytorchPlugin(["--wait-master-enabled=true"])
    (waits,) = pod_of(plugin, TASKS[1])["spec"]["initContainers"]
    subprocess.run(["sh", "-n", "-c", waits["command"][-1]], check=True)


def test_a_declared_port_is_not_declared_twice():
    """A container that declares the port keeps its own declaration."""
    container = {"ports": [{"name": "mine", "containerPort": 22}]}
    add_port([container], "other", 22)
    assert container["ports"] == [{"name": "mine", "containerPort": 22}]


def test_a_fixed_host_name_makes_one_host():
    """A host name in the template stands for the whole task."""
    task = {"name": "w", "replicas": 3, "template": {"spec": {"hostname": "h", "subdomain": "s"}}}
    assert hosts(JOB, task) == ["h.s"]


def test_mpi_needs_both_tasks():
    """The first task that mpi misses is named; with both there is none."""
    spec = {"plugins": {"mpi": []}, "tasks": [{"name": "master"}]}
    assert missing_task(spec) == "worker"
    assert missing_task({**spec, "tasks": []}) == "master"
    assert missing_task({**spec, "tasks": TASKS}) is None
    assert missing_task({"tasks": []}) is None


def test_an_unknown_plugin_is_an_error():
    """A plugin that Volcano does not know raises; one that it knows and we do not play is passed over."""
    job = clone(JOB)
    job["spec"]["plugins"] = {"nosuch": []}
    with pytest.raises(UnknownPluginError, match="nosuch"):
        plugins_of(job, nothing_is_wrong)
    job["spec"]["plugins"] = {"ray": [], "env": []}
    assert [p.name for p in plugins_of(job, nothing_is_wrong)] == ["env"]


def test_two_pairs_differ():
    """Every pair is a new one, and the public line names its type."""
    one, other = keys.new_key_pair(), keys.new_key_pair()
    assert one.private != other.private
    kind, blob = one.public.split()
    assert kind == "ssh-ed25519"
    assert base64.b64decode(blob)[4:15] == b"ssh-ed25519"


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_openssh_reads_the_private_key(tmp_path):
    """ssh-keygen derives from the private key file the public key that stands beside it."""
    pair = keys.new_key_pair()
    path = tmp_path / "id_rsa"
    path.write_text(pair.private)
    path.chmod(0o600)
    done = subprocess.run(["ssh-keygen", "-y", "-f", path], check=True, capture_output=True, text=True)
    assert done.stdout.split()[:2] == pair.public.split()


@pytest.mark.parametrize(
    ("arguments", "path", "mode"),
    [
        ([], "/root/.ssh", 0o600),
        (["--ssh-key-file-path=/root/.ssh"], "/root/.ssh", 0o600),
        (["--ssh-key-file-path=/home/user/.ssh"], "/home/user/.ssh", 0o644),
    ],
)
def test_keys_are_mounted_with_the_mode_that_goes_with_their_path(arguments, path, mode):
    """0600 at the documented path, 0644 at any other, which is for users that are not root."""
    pod = pod_of(SshPlugin(arguments), TASKS[0])
    (volume,), (mount,) = pod["spec"]["volumes"], pod["spec"]["containers"][0]["volumeMounts"]
    assert (volume["secret"]["secretName"], volume["secret"]["defaultMode"]) == ("j-ssh", mode)
    assert (mount["mountPath"], mount["subPath"]) == (path, ".ssh")


def test_planted_keys_are_open_at_the_documented_path():
    """plugins.opens-keys: the mode alone is another one."""
    job = {**JOB, "spec": {**JOB["spec"], "plugins": {"ssh": []}}}
    (plugin,) = plugins_of(job, lambda name: name == "plugins.opens-keys")
    (volume,) = pod_of(plugin, TASKS[0])["spec"]["volumes"]
    assert volume["secret"]["defaultMode"] == 0o644


def test_a_planted_variable_of_mpi_stands_in_the_first_task():
    """plugins.injects-unasked: MPI_HOST without the mpi plugin."""
    job = {**JOB, "spec": {**JOB["spec"], "plugins": {}}}
    pod = {"metadata": {"name": "j-master-0"}, "spec": {"containers": [{}]}}
    for plugin in plugins_of(job, lambda name: name == "plugins.injects-unasked"):
        plugin.on_pod(pod, job, TASKS[0], 0)
    assert env_of(pod)["MPI_HOST"] == "j-worker-0.j,j-worker-1.j"
