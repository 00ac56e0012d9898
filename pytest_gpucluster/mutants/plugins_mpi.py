"""Departures of the ssh and mpi plugins, and of what mpiexec makes of them."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.mutants import base

DENIED = "root@worker: Permission denied (publickey)."


def _jobs(evidence: Evidence, role: str) -> tuple[str, ...]:
    """Return the names of the Jobs that play a role."""
    return tuple(
        str(note.data.get("name")) for note in evidence.notes("submitted") if note.data.get("role") == role
    )


def _of(evidence: Evidence, role: str, pod: object) -> bool:
    return any(str(pod).startswith(f"{name}-") for name in _jobs(evidence, role))


def told(role: str, event: str, change: Callable[[dict[str, Any]], None], *, once: bool = False) -> base.Act:
    """Return the mutant that changes a fact that members of a Job tell: each of them, or the first `once`."""

    def act(evidence: Evidence) -> Evidence:
        left = [1]

        def edit(line: Line, word: dict[str, Any]) -> dict[str, Any]:
            if word.get("event") == event and _of(evidence, role, line.data.get("pod")) and left[0]:
                left[0] -= once
                change(word)
            return word

        return base.words(evidence, edit)

    return act


def lost(role: str, event: str) -> base.Act:
    """Return the mutant that loses the first fact of a kind that members of a Job tell."""

    def act(evidence: Evidence) -> Evidence:
        left = [1]

        def edit(line: Line, word: dict[str, Any]) -> dict[str, Any] | None:
            if word.get("event") != event or not _of(evidence, role, line.data.get("pod")) or not left[0]:
                return word
            left[0] -= 1
            return None

        return base.words(evidence, edit)

    return act


def objects(role: str, kind: str, change: Callable[[dict[str, Any]], None]) -> base.Act:
    """Return the mutant that changes the objects of a kind which are, or belong to, a Job."""

    def act(evidence: Evidence) -> Evidence:
        names = _jobs(evidence, role)

        def chosen(line: Line) -> bool:
            return line.kind == kind and (line.name in names or _of(evidence, role, line.name))

        return base.each(evidence, chosen, change)

    return act


def open_mode(word: dict[str, Any]) -> None:
    """Let everybody read the private key."""
    for one in fields.items(word, "files"):
        if one.get("name") == "id_rsa" and isinstance(one, dict):
            one["mode"] = "0644"


def open_volume(pod: dict[str, Any]) -> None:
    """Mount Secrets with mode 0644."""
    for volume in fields.items(pod, "spec", "volumes"):
        secret = volume.get("secret")
        if isinstance(secret, dict):
            secret["defaultMode"] = 0o644


def no_secret(pod: dict[str, Any]) -> None:
    """Let the keys come from another Secret than the Job's."""
    for volume in fields.items(pod, "spec", "volumes"):
        secret = volume.get("secret")
        if isinstance(secret, dict):
            secret["secretName"] = "keys-of-somebody"


def without_plugin(name: str) -> Callable[[dict[str, Any]], None]:
    """Return the change that takes a plugin off a Job."""
    return lambda job: job["spec"].get("plugins", {}).pop(name, None)


def denied(word: dict[str, Any]) -> None:
    """Let the other side refuse the key."""
    word.update(ok=False, code=255, said="", error=DENIED)


def host_in_env(value: str | None) -> Callable[[dict[str, Any]], None]:
    """Return the change of MPI_HOST as processes printed it; None takes it away, "" its last host."""

    def change(word: dict[str, Any]) -> None:
        env = {**fields.sub(word, "env")}
        if value is None:
            env.pop("MPI_HOST", None)
        elif value:
            env["MPI_HOST"] = value
        elif "MPI_HOST" in env:
            env["MPI_HOST"] = str(env["MPI_HOST"]).rpartition(",")[0]
        word["env"] = env

    return change


MUTANTS: base.Table = {
    "plugins.ssh-denied": base.Mutant(
        "one login between members is refused",
        told("ssh", "ssh-login", denied, once=True),
        {"PLG-012": "fail"},
    ),
    "plugins.ssh-astray": base.Mutant(
        "one login ends at another pod",
        told("ssh", "ssh-login", lambda w: w.update(said="mpi-ssh-other-0"), once=True),
        {"PLG-012": "fail"},
    ),
    "plugins.ssh-key-open": base.Mutant(
        "members find their private key open to all", told("ssh", "ssh-keys", open_mode), {"PLG-012": "fail"}
    ),
    "plugins.ssh-volume-open": base.Mutant(
        "the volume of the keys has mode 0644", objects("ssh", "Pod", open_volume), {"PLG-012": "fail"}
    ),
    "plugins.ssh-other-secret": base.Mutant(
        "the keys come from another Secret", objects("ssh", "Pod", no_secret), {"PLG-012": "fail"}
    ),
    "plugins.ssh-no-config": base.Mutant(
        "the folder of keys is empty",
        told("ssh", "ssh-keys", lambda w: w.update(files=[], key="", authorized=False)),
        {"PLG-012": "fail"},
    ),
    "plugins.ssh-keys-differ": base.Mutant(
        "one member has another key pair",
        told("ssh", "ssh-keys", lambda w: w.update(key="0123456789abcdef"), once=True),
        {"PLG-012": "inconclusive"},
    ),
    "plugins.ssh-login-lost": base.Mutant(
        "one login is not told", lost("ssh", "ssh-login"), {"PLG-012": "inconclusive"}
    ),
    "plugins.ssh-keys-untold": base.Mutant(
        "one member does not tell its keys", lost("ssh", "ssh-keys"), {"PLG-012": "inconclusive"}
    ),
    "plugins.mpi-host-absent": base.Mutant(
        "the master has no MPI_HOST", told("mpi", "env", host_in_env(None)), {"PLG-008": "fail"}
    ),
    "plugins.mpi-host-short": base.Mutant(
        "MPI_HOST lacks the last worker", told("mpi", "env", host_in_env("")), {"PLG-008": "fail"}
    ),
    "plugins.mpi-host-everywhere": base.Mutant(
        "every member has MPI_HOST, asked for or not",
        lambda e: told("unplugged", "env", host_in_env("worker-0"))(
            told("mpi", "env", host_in_env("worker-0"))(e)
        ),
        {"PLG-008": "fail", "PLG-009": "inconclusive"},
    ),
    "plugins.mpi-without-svc": base.Mutant(
        "the mpi plugin does not force svc on",
        objects("mpi", "Job.batch.volcano.sh", without_plugin("svc")),
        {"PLG-008": "fail"},
    ),
    "plugins.mpi-without-ssh": base.Mutant(
        "the mpi plugin does not force ssh on",
        objects("mpi", "Job.batch.volcano.sh", without_plugin("ssh")),
        {"PLG-008": "fail"},
    ),
    "plugins.mpi-denied": base.Mutant(
        "a worker refuses the launcher", told("mpi", "ssh-login", denied, once=True), {"PLG-008": "fail"}
    ),
    "plugins.mpiexec-failed": base.Mutant(
        "mpiexec fails",
        told(
            "mpi",
            "mpi-launch",
            lambda w: w.update(ok=False, code=213, error="A daemon failed to report back"),
        ),
        {"PLG-008": "fail"},
    ),
    "plugins.mpi-singletons": base.Mutant(
        "each rank believes itself alone",
        told("mpi", "mpi-rank", lambda w: w.update(rank=0, world=1, sum=1.0)),
        {"PLG-008": "fail"},
    ),
    "plugins.mpi-one-host": base.Mutant(
        "all ranks run on one worker",
        told("mpi", "mpi-rank", lambda w: w.update(host="mpi-mpi-mpiworker-0")),
        {"PLG-008": "fail"},
    ),
    "plugins.mpi-wrong-sum": base.Mutant(
        "one rank has a wrong sum",
        told("mpi", "mpi-rank", lambda w: w.update(sum=2.0), once=True),
        {"PLG-008": "fail"},
    ),
    "plugins.mpi-rank-lost": base.Mutant(
        "one rank does not speak", lost("mpi", "mpi-rank"), {"PLG-008": "inconclusive"}
    ),
    "plugins.unplugged-enters": base.Mutant(
        "a worker lets the launcher in without the plugins",
        told(
            "unplugged",
            "ssh-login",
            lambda w: w.update(ok=True, code=0, said="mpi-unplugged-mpiworker-0", error=""),
        ),
        {"PLG-009": "inconclusive"},
    ),
    "plugins.unplugged-keys": base.Mutant(
        "a member has a private key without the plugins",
        told(
            "unplugged",
            "ssh-keys",
            lambda w: w.update(files=[{"name": "id_rsa", "mode": "0600", "uid": 0}]),
            once=True,
        ),
        {"PLG-009": "inconclusive"},
    ),
    "plugins.unplugged-refused": base.Mutant(
        "the worker's server does not listen",
        told(
            "unplugged",
            "ssh-login",
            lambda w: w.update(error="ssh: connect to host w port 22: Connection refused"),
        ),
        {"PLG-009": "inconclusive"},
    ),
}
