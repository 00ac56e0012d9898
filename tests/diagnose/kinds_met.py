"""Kinds in which members do not meet: what resolvers, sockets and ssh say, and what each of them may mean."""

from typing import Any

from tests.diagnose.kinds_started import Plant, Row
from tests.diagnose.planting import Dump, Obj

MASTER = "torch-master-0.torch"
GAI = "The IPv4 network addresses of ({0}, 23456) cannot be retrieved (gai error: {1})."
ABSENT, AGAIN = "-2 - Name or service not known", "-3 - Temporary failure in name resolution"
REFUSED = f"connect to {MASTER}:23456 failed: Connection refused"
SILENT = f"connect to {MASTER}:23456 failed: Connection timed out"


def _said(*lines: str, change: Any = None) -> Plant:
    """Let a worker say lines, in a job that is changed first."""

    def plant() -> Dump:
        dump = Dump()
        if change is not None:
            change(dump)
        return dump.say(dump.workers[0], *lines)

    return plant


def _every(dump: Dump) -> list[Obj]:
    return [*(pod["spec"] for pod in dump.pods), dump.task(0), dump.task(1)]


def _policy(direction: str, rules: list[Obj]) -> Any:
    def change(dump: Dump) -> None:
        dump.drop("NetworkPolicy")
        spec = {"podSelector": {}, "policyTypes": [direction], direction.lower(): rules}
        metadata = {"name": "closed", "namespace": dump.namespace, "uid": "np"}
        dump.add(
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": metadata,
                "spec": spec,
            }
        )

    return change


def _own_resolver(server: str) -> Any:
    def change(dump: Dump) -> None:
        for spec in _every(dump):
            spec |= {"dnsPolicy": "None", "dnsConfig": {"nameservers": [server]}}

    return change


def _node_resolver(dump: Dump) -> None:
    for spec in _every(dump):
        spec["dnsPolicy"] = "Default"


def _sidecar(name: str, image: str = "proxy:1") -> Any:
    def change(dump: Dump) -> None:
        for pod in dump.pods:
            pod["spec"]["containers"].append({"name": name, "image": image})

    return change


def _named(name: str) -> Any:
    """Name the job's own container so, in the template too."""

    def change(dump: Dump) -> None:
        for spec in _every(dump):
            spec["containers"][0]["name"] = name

    return change


def _batch(name: str) -> Plant:
    """A Job of Kubernetes whose own container has that name."""

    def plant() -> Dump:
        dump = Dump().drop("Job", "PodGroup", "Service")
        for pod in dump.pods:
            pod["metadata"] |= {"labels": {}, "annotations": {}, "ownerReferences": []}
            pod["spec"]["containers"][0] |= {"name": name, "image": f"reg.example/{name}:1"}
        return dump.say(dump.workers[0], REFUSED)

    return plant


def _ssh(*lines: str, sshd: str = "/usr/sbin/sshd -D") -> Plant:
    def plant() -> Dump:
        dump = Dump()
        dump.job["spec"]["plugins"] = {"mpi": ["--master=master", "--worker=worker"], "ssh": [], "svc": []}
        dump.task(0)["containers"][0]["command"] = ["sh", "-c", "mpiexec -np 3 train"]
        dump.task(1)["containers"][0]["command"] = ["sh", "-c", sshd] if sshd else []
        return dump.say(dump.master, *lines)

    return plant


KINDS: dict[str, Row] = {
    "a name that no server has": (
        _said(GAI.format(MASTER, ABSENT)), "trouble", "name-unresolved",
        [MASTER, "does not resolve", "endpoints"], ["does not answer"],
    ),
    "a server of names that does not answer": (
        _said(GAI.format(MASTER, AGAIN)), "trouble", "name-unresolved",
        ["does not answer", "CoreDNS", "NetworkPolicy"], ["wait for the name"],
    ),
    "a policy that lets no question out": (
        _said(GAI.format(MASTER, AGAIN), change=_policy("Egress", [{"to": [{"podSelector": {}}]}])),
        "trouble", "name-unresolved", ["closed", "53"], ["wait for the name"],
    ),
    "a policy that lets questions out": (
        _said(GAI.format(MASTER, AGAIN), change=_policy("Egress", [{"ports": [{"port": 53, "protocol": "UDP"}]}])),
        "trouble", "name-unresolved", ["CoreDNS"], ["closed lets"],
    ),
    "a resolver of its own": (
        _said(GAI.format(MASTER, ABSENT), change=_own_resolver("1.1.1.1")), "trouble", "name-unresolved",
        ["1.1.1.1", "dnsPolicy None"], [],
    ),
    "a name outside, with the node's resolver": (
        _said("fatal: unable to access 'https://git.example.org/': Could not resolve host: git.example.org",
              change=_node_resolver),
        "trouble", "name-unresolved", ["git.example.org", "outside the cluster"], ["set dnsPolicy ClusterFirst"],
    ),
    "a refused port: nobody listens, or not there": (
        _said(REFUSED), "trouble", "port-refused",
        ["23456", "one of", "listens", "127.0.0.1"], ["firewall between"],
    ),
    "a silent port": (
        _said(SILENT), "trouble", "port-unreached", ["does not answer", "networkpolicies"], ["nothing listens"],
    ),
    "a policy drops, it does not refuse": (
        _said(REFUSED, change=_policy("Ingress", [])), "trouble", "port-refused",
        ["refused", "23456"], ["isolates torch-master-0 and lets no other member in"],
    ),
    "a policy lets nobody in": (
        _said(SILENT, change=_policy("Ingress", [])), "trouble", "network-policy", ["closed", "torch-master-0"], [],
    ),
    "a policy lets nobody out": (
        _said(SILENT, change=_policy("Egress", [{"ports": [{"port": 53}]}])), "trouble", "network-policy",
        ["closed", "out"], [],
    ),
    "a proxy beside": (
        _said(REFUSED, change=_sidecar("istio-proxy")), "trouble", "mesh", ["istio-proxy", "likely"], [],
    ),
    "a container that is called after a mesh graph": (
        _batch("meshgraphnet"), "trouble", "port-refused", ["refused"], ["service mesh"],
    ),
    "a container of the universe": (
        _batch("cosmos"), "trouble", "port-refused", ["refused"], ["service mesh"],
    ),
    "the job's own container called osm-train": (
        _said(REFUSED, change=_named("osm-train")), "trouble", "port-refused", ["refused"], ["service mesh"],
    ),
    "ssh: a key that is not taken": (
        _ssh("root@torch-worker-0: Permission denied (publickey)."), "trouble", "ssh-refused",
        ["key", "torch-worker-0", "authorized_keys"], ["no task starts sshd", "fsGroup"],
    ),
    "ssh: a host that is not known": (
        _ssh("Host key verification failed."), "trouble", "ssh-refused", ["host key", "StrictHostKeyChecking"],
        ["no task starts sshd"],
    ),
    "ssh: nobody listens": (
        _ssh("ssh: connect to host torch-worker-0.torch port 22: Connection refused"), "trouble", "ssh-refused",
        ["sshd", "port 22"], ["authorized_keys"],
    ),
    "ssh: nothing answers": (
        _ssh("ssh: connect to host torch-worker-0.torch port 22: Connection timed out"), "trouble", "ssh-refused",
        ["does not answer", "networkpolicies"], ["no task starts sshd"],
    ),
    "ssh: no client in the image": (
        _ssh("sh: 1: ssh: command not found"), "trouble", "ssh-refused", ["ssh client", "image"],
        ["no task starts sshd"],
    ),
    "ssh: no host keys": (
        _ssh("sshd: no hostkeys available -- exiting."), "trouble", "ssh-refused", ["ssh-keygen -A"], [],
    ),
    "ssh: a key that others may read": (
        _ssh("WARNING: UNPROTECTED PRIVATE KEY FILE!", "Permissions 0644 for '/root/.ssh/id_rsa' are too open."),
        "trouble", "ssh-refused", ["0600"], ["no task starts sshd"],
    ),
    "ssh: sshd may be the image's own": (
        _ssh("ssh: connect to host torch-worker-0.torch port 22: Connection refused", sshd=""),
        "trouble", "ssh-refused", ["or"], ["no task starts sshd"],
    ),
    "ssh: closed before it began": (
        _ssh("kex_exchange_identification: read: Connection reset by peer"), "trouble", "ssh-refused",
        ["MaxStartups", "or"], [],
    ),
}  # fmt: skip
"""Kind -> how it is planted, state, code of the first cause, what must be named, what must not."""
