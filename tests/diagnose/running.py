"""Ways in which a job hangs once its program runs, or after: how each is planted, its code, what must be named."""

from collections.abc import Callable

from tests.diagnose.planting import GPU, Dump

Plant = Callable[[], Dump]


def _no_plugin() -> Dump:
    dump = Dump()
    dump.job["spec"]["plugins"] = {"svc": []}
    for pod in dump.pods:
        box = pod["spec"]["containers"][0]
        box["env"] = [
            e
            for e in box.get("env", [])
            if e["name"] not in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
        ]
    return dump


def no_use() -> Dump:
    """Return a job without the pytorch plugin whose program does not ask for it."""
    dump = _no_plugin()
    for number in (0, 1):
        dump.task(number)["containers"][0]["command"] = ["python", "train.py"]
    for pod in dump.pods:
        pod["spec"]["containers"][0]["command"] = ["python", "train.py"]
    return dump


def _no_plugin_says_torch() -> Dump:
    dump = no_use()
    text = (
        "Error initializing torch.distributed using env://: environment variable RANK expected, but not set"
    )
    return dump.say(dump.master, "loading", text).end(dump.master, 1)


def _worker_misnamed() -> Dump:
    dump = Dump()
    dump.job["spec"]["plugins"] = {"pytorch": ["--master=master", "--worker=workers"], "svc": []}
    return dump


def _admission_absent() -> Dump:
    dump = Dump()
    dump.job["spec"]["plugins"] = {"pytorch": ["--master=master", "--worker=worker"]}
    return dump


def _service_gone() -> Dump:
    dump = Dump().drop("Service")
    dump.looked["Service"] = 0
    return dump


def _mpi_without_plugin() -> Dump:
    dump = no_use()
    text = (
        "mkdir -p /var/run/sshd; /usr/sbin/sshd; mpiexec --allow-run-as-root --host ${MPI_HOST} -np 3 train"
    )
    dump.task(0)["containers"][0]["command"] = ["sh", "-c", text]
    return dump.say(dump.master, "ssh: connect to host torch-worker-0 port 22: Connection refused")


def _sshd_not_started() -> Dump:
    dump = _mpi_without_plugin()
    dump.job["spec"]["plugins"] = {"mpi": ["--master=master", "--worker=worker"], "ssh": [], "svc": []}
    return dump


def _cpu_only() -> Dump:
    dump = Dump()
    for spec in (dump.task(1), *(pod["spec"] for pod in dump.workers)):
        spec["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        spec["containers"][0]["command"] = ["torchrun", "--nnodes=4", "train.py"]
    for spec in (dump.task(0), dump.master["spec"]):
        spec["containers"][0]["command"] = ["torchrun", "--nnodes=4", "train.py"]
    return dump


def _no_gpu_seen() -> Dump:
    dump = no_use()
    for spec in (dump.task(0), dump.task(1), *(pod["spec"] for pod in dump.pods)):
        spec["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return dump.say(dump.master, "RuntimeError: No CUDA GPUs are available").end(dump.master, 1)


def _waits_for_more() -> Dump:
    dump = Dump()
    for spec in (dump.task(0), dump.task(1)):
        spec["containers"][0]["command"] = ["torchrun", "--nnodes=8", "--nproc_per_node=4", "train.py"]
    return dump


UNKNOWN = (
    "[W socket.cpp:697] [c10d] The IPv6 network addresses of (torch-master-0.torch, 23456) cannot be retrieved (gai "
    "error: -2 - Name or service not known)."
)
TIMED_OUT = (
    "torch.distributed.DistNetworkError: The client socket has timed out after 60s while trying to connect to "
    "(torch-master-0.torch, 23456)."
)
RESET = "RuntimeError: Connection reset by peer; failed to connect to (torch-master-0.torch, 23456)"


def _master_not_ready() -> Dump:
    dump = Dump()
    dump.wait(dump.master, "ContainerCreating")
    return dump.say(dump.workers[0], UNKNOWN, UNKNOWN)


def _wrong_service() -> Dump:
    dump = Dump()
    text = "ssh: Could not resolve hostname torch-master-0.trainer: Name or service not known"
    return dump.say(dump.workers[0], text).end(dump.workers[0], 255)


def _no_store() -> Dump:
    dump = Dump()
    for pod in dump.pods:
        dump.say(pod, UNKNOWN, TIMED_OUT).end(pod, 1)
    return dump


def _no_store_no_service() -> Dump:
    """Nobody could resolve a name below a Service that nothing makes; torch then waits for a store in vain."""
    dump = no_use().drop("Service")
    dump.looked["Service"] = 0
    dump.job["spec"]["plugins"] = {}
    for pod in dump.pods:
        dump.say(pod, UNKNOWN, TIMED_OUT).end(pod, 1)
    return dump


def _mesh() -> Dump:
    dump = Dump()
    for pod in dump.pods:
        pod["spec"]["containers"].append({"name": "linkerd-proxy", "image": "linkerd/proxy:2"})
    dump.add({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": dump.namespace, "uid": "ns", "annotations": {"linkerd.io/inject": "enabled"}},
    })  # fmt: skip
    return dump.say(dump.workers[0], RESET).restart(dump.workers[0], 4, 1)


def _policy_blocks() -> Dump:
    dump = Dump().drop("NetworkPolicy")
    dump.add({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "default-deny", "namespace": dump.namespace, "uid": "deny"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    })  # fmt: skip
    return dump.say(dump.workers[0], TIMED_OUT)


def _nobody_listens() -> Dump:
    dump = Dump()
    return dump.say(dump.workers[0], "connect to torch-master-0.torch:23456: Connection refused").end(
        dump.workers[0], 1
    )


def _master_gone() -> Dump:
    dump = Dump()
    dump.end(dump.master, 1, ago=30)
    return dump.say(dump.workers[0], "connect to torch-master-0.torch:23456: Connection refused")


def _too_few_came() -> Dump:
    dump = Dump()
    for pod in dump.pods:
        dump.say(pod, "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError").end(pod, 1)
    return dump


def _out_of_memory() -> Dump:
    dump = Dump()
    return dump.restart(dump.workers[2], 5, 137, "OOMKilled")


def _attempts_used_up() -> Dump:
    dump = Dump()
    dump.end(dump.workers[0], 7, ago=61).say(dump.workers[0], "loss is nan, giving up")
    dump.objects = [o for o in dump.objects if o["kind"] != "Pod" or o is dump.workers[0]]
    return dump.phase("Failed", retryCount=3)


def _aborted_by_policy() -> Dump:
    dump = Dump()
    dump.end(dump.workers[0], 9, ago=61)
    dump.objects = [o for o in dump.objects if o["kind"] != "Pod" or o is dump.workers[0]]
    dump.event(
        dump.job,
        "ExecuteAction",
        "Start to execute action AbortJob ",
        kind="Normal",
        by="vc-controller-manager",
    )
    return dump.phase("Aborted")


def _suspended() -> Dump:
    dump = Dump().drop("Pod", "PodGroup")
    dump.event(
        dump.job, "CommandIssued", "Start to execute command AbortJob, and clean it up.", kind="Normal"
    )
    return dump.phase("Aborted")


def _lingering() -> Dump:
    dump = Dump()
    for task in dump.job["spec"]["tasks"]:
        task.pop("policies", None)
    return dump.end(dump.master, 0, reason="Completed", ago=50)


def _policy_ignored() -> Dump:
    dump = Dump()
    return dump.end(dump.master, 0, reason="Completed", ago=50)


def _left_running() -> Dump:
    return Dump().phase("Failed", retryCount=1)


def _restarting_for_ever() -> Dump:
    return Dump().drop("Pod", "PodGroup").phase("Restarting", ago=200, retryCount=1)


def _gpu_memory() -> Dump:
    dump = Dump()
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    return dump.say(dump.workers[1], "step 1", text, "E0302 api.py:826] failed (exitcode: 1)").end(
        dump.workers[1], 1
    )


def _shared_memory() -> Dump:
    dump = Dump()
    text = "RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error."
    return dump.say(dump.workers[0], text, previous=True).restart(dump.workers[0], 3, 1)


def _outside_name() -> Dump:
    dump = Dump()
    text = "ConnectionError: Failed to resolve 'hub.example.com' ([Errno -2] Name or service not known)"
    return dump.say(dump.master, text).end(dump.master, 1)


def _host_network() -> Dump:
    dump = Dump()
    for pod in dump.pods:
        pod["spec"] |= {"hostNetwork": True, "dnsPolicy": "ClusterFirst"}
    return dump.say(dump.workers[0], UNKNOWN)


def _clients_joined() -> Dump:
    dump = Dump()
    for pod in dump.workers[:2]:
        dump.say(pod, "waiting for the others")
    return dump.say(
        dump.master,
        "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 3/4 clients joined.",
    ).end(dump.master, 1)


def _port_in_use() -> Dump:
    dump = Dump()
    for pod in dump.pods:
        pod["spec"] |= {"hostNetwork": True, "nodeName": "node-1", "dnsPolicy": "ClusterFirstWithHostNet"}
    text = "The server socket has failed to listen on any local network address. EADDRINUSE: Address already in use"
    return dump.say(dump.workers[0], text).end(dump.workers[0], 1)


def _own_loopback() -> Dump:
    dump = Dump()
    text = "RuntimeError: [gloo/transport/tcp/pair.cc:144] no error: Connection refused, remote=[127.0.1.1]:23456"
    return dump.say(dump.workers[0], text).end(dump.workers[0], 1)


def _in_grace() -> Dump:
    dump = Dump()
    dump.end(dump.master, 0, reason="Completed", ago=20)
    for pod in dump.workers:
        pod["spec"]["terminationGracePeriodSeconds"] = 90
        pod["metadata"] |= {"deletionTimestamp": dump.ago(-75), "deletionGracePeriodSeconds": 90}
    return dump.phase("Completing", ago=15)


def _stuck_terminating() -> Dump:
    dump = _in_grace()
    return dump.later(300)


def _sockets() -> Dump:
    dump = Dump()
    dump.task(0)["containers"][0]["resources"]["limits"]["rdma/hca_shared"] = "1"
    dump.say(
        dump.master, "torch-master-0:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0"
    )
    return dump.say(dump.workers[0], "torch-worker-0:1:1 [0] NCCL INFO Using network Socket")


def _stalled() -> Dump:
    dump = Dump()
    text = (
        "[rank3]:[E ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL"
    )
    return dump.say(dump.workers[1], text)


def _asks_for_nothing() -> Dump:
    dump = Dump()
    for pod in dump.workers:
        pod["spec"]["containers"][0]["resources"] = {}
    return dump.unbind(*dump.workers).drop("Event")


MODES: dict[str, tuple[Plant, str, list[str]]] = {
    "no pytorch plugin": (_no_plugin, "rank-variables", ["no pytorch plugin", "MASTER_ADDR", "--master=master"]),
    "no pytorch plugin, torch says so": (_no_plugin_says_torch, "rank-variables", ["RANK expected"]),
    "worker's name does not match": (_worker_misnamed, "rank-variables", ["'workers'", "--worker="]),
    "svc not added": (_admission_absent, "svc-missing", ["svc: []"]),
    "Service gone": (_service_gone, "service-missing", ["Service torch"]),
    "MPI without the plugin": (
        _mpi_without_plugin, "mpi-plugin", ["MPI_HOST", "--worker=worker", "Connection refused"],
    ),
    "MPI without sshd": (_sshd_not_started, "ssh-refused", ["sshd"]),
    "a task without GPUs": (_cpu_only, "gpu-limit", ["task worker", GPU, "spec.tasks[1]"]),
    "no GPU seen": (_no_gpu_seen, "gpu-limit", ["No CUDA GPUs", GPU]),
    "too few nodes": (_waits_for_more, "too-few-nodes", ["8 nodes", "4 pods"]),
    "master not ready": (_master_not_ready, "name-unresolved", ["torch-master-0", "not ready"]),
    "no such Service": (_wrong_service, "name-unresolved", ["no Service trainer", "(torch)"]),
    "no pod hosts the store": (_no_store, "nobody-hosts", ["torch-master-0", "is_host"]),
    "no Service, so no store": (
        _no_store_no_service, "name-unresolved", ["no Service torch", "no svc plugin", "svc: []"],
    ),
    "mesh": (_mesh, "mesh", ["linkerd-proxy", "23456", "linkerd.io/inject=enabled"]),
    "NetworkPolicy": (_policy_blocks, "network-policy", ["default-deny", "torch-master-0", "23456"]),
    "nobody listens": (_nobody_listens, "port-refused", ["port 23456", "torch-master-0"]),
    "master ended": (_master_gone, "master-not-running", ["torch-master-0", "Failed"]),
    "rendezvous timed out": (_too_few_came, "rendezvous-timeout", ["timed out"]),
    "out of memory": (_out_of_memory, "restart-in-place", ["OOMKilled", "5 times", "OnFailure", "memory"]),
    "attempts used up": (_attempts_used_up, "retries-exhausted", ["maxRetry 3", "exit code 7", "loss is nan"]),
    "aborted by policy": (_aborted_by_policy, "member-failed", ["Aborted", "AbortJob", "exit code 9"]),
    "suspended": (_suspended, "suspended", ["vcctl job resume"]),
    "workers linger": (_lingering, "no-complete-policy", ["TaskCompleted", "CompleteJob", "torch-worker-0"]),
    "policy not acted on": (_policy_ignored, "policy-not-acted", ["vc-controller-manager"]),
    "pods left running": (_left_running, "left-running", ["Failed", "16 nvidia.com/gpu"]),
    "restarting for ever": (_restarting_for_ever, "stuck-between", ["Restarting", "vc-controller-manager"]),
    "GPU memory": (_gpu_memory, "member-failed", ["the GPU's memory", "torch-worker-1", "smaller batches"]),
    "shared memory": (_shared_memory, "restart-in-place", ["/dev/shm", "3 times"]),
    "a name outside": (_outside_name, "name-unresolved", ["hub.example.com", "outside the cluster"]),
    "hostNetwork and its DNS": (_host_network, "name-unresolved", ["ClusterFirstWithHostNet", "torch-master-0"]),
    "a member that never came": (_clients_joined, "members-missing", ["3 of 4", "torch-worker-2"]),
    "port in use": (_port_in_use, "address-in-use", ["torch-worker-0", "hostNetwork", "node-1"]),
    "own loopback": (_own_loopback, "loopback", ["127.0.1.1", "GLOO_SOCKET_IFNAME"]),
    "grace": (_in_grace, "grace", ["grace period 90 s", "torch-worker-2"]),
    "stuck": (_stuck_terminating, "stuck-terminating", ["beyond its grace"]),
    "NCCL on sockets": (_sockets, "nccl-sockets", ["NET/Socket", "torch-master-0", "rdma/hca_shared"]),
    "NCCL stalled": (_stalled, "nccl-stall", ["torch-worker-1", "Watchdog"]),
    "members that ask for nothing": (_asks_for_nothing, "best-effort", ["torch-worker-0", "requests"]),
}  # fmt: skip
"""Mode -> how it is planted, the code of the likeliest cause, what its text names."""
