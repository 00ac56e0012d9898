"""Judges of the ssh and mpi plugins: each failure has the cause that its words and the keys of both sides tell."""

from collections.abc import Callable
from typing import Any

import pytest

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.judge.plugins import mpi_control, mpi_launch, ssh_causes, ssh_logins
from pytest_gpucluster.mutants import base, plugins_mpi
from pytest_gpucluster.requirement import Cause, Finding
from tests import recordings

Change = Callable[[dict[str, Any]], None]
DENIED = "root@h: Permission denied (publickey,password)."


def recorded() -> Evidence:
    """Return the evidence of the run in which all is well."""
    return recordings.embedded("mpi")


def failed(error: str, *also: base.Act, code: int = 255) -> Finding:
    """Return what PLG-012 says if one login failed so, and other evidence was changed too."""
    change = lambda w: w.update(ok=False, code=code, said="", error=error)  # noqa: E731
    evidence = plugins_mpi.told("ssh", "ssh-login", change, once=True)(recorded())
    for act in also:
        evidence = act(evidence)
    return ssh_logins.each_to_each(evidence)


def every(event: str, change: Change) -> base.Act:
    """Return the change of a fact of each member of the Job with the ssh plugin."""
    return plugins_mpi.told("ssh", event, change)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("ssh: Could not resolve hostname w-0: Name or service not known", ssh_causes.NO_NAME),
        ("ssh: connect to host w-0 port 22: Connection refused", ssh_causes.NO_SERVER),
        ("ssh: connect to host w-0 port 22: Connection timed out", ssh_causes.NO_WAY),
        ("ssh: connect to host w-0 port 22: No route to host", ssh_causes.NO_WAY),
        ("Host key verification failed.", ssh_causes.HOST_KEY),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            ssh_causes.HOST_KEY,
        ),
        ("Bad owner or permissions on /root/.ssh/config", ssh_causes.CONFIG_MODE),
        ("ssh: No such file or directory", ssh_causes.NO_CLIENT),
        (DENIED, ssh_causes.SERVER_REFUSES),
        (f'Load key "/root/.ssh/id_rsa": bad permissions\n{DENIED}', ssh_causes.TOO_OPEN),
        ("kex_exchange_identification: read: Connection reset by peer", ssh_causes.UNKNOWN),
        ("", ssh_causes.UNKNOWN),
    ],
)
def test_a_failed_login_is_told_by_its_words(error: str, cause: Cause) -> None:
    """Each with the cause that nothing else would give; what is not understood is called so."""
    finding = failed(error)
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert finding.causes == (cause,)


def without_key(word: dict[str, Any]) -> None:
    """Take the private key away, and the rest with it."""
    word.update(files=[], key="", authorized=False)


@pytest.mark.parametrize(
    ("also", "cause"),
    [
        (
            plugins_mpi.told("ssh", "ssh-keys", lambda w: w.update(key="0" * 16), once=True),
            ssh_causes.KEYS_DIFFER,
        ),
        (every("ssh-keys", lambda w: w.update(authorized=False)), ssh_causes.NOT_AUTHORIZED),
        (every("ssh-keys", lambda w: w.update(uid=1000, home="/home/u")), ssh_causes.OTHER_HOME),
    ],
    ids=["two-pairs", "not-authorized", "another-user"],
)
def test_a_refused_key_is_told_by_the_keys_of_both_sides(also: base.Act, cause: Cause) -> None:
    """Of all that end in the same words."""
    assert failed(DENIED, also).causes == (cause,)


def test_keys_at_another_path_have_another_mode() -> None:
    """With `--ssh-key-file-path` 0644 is right, and 0600 is not."""

    def elsewhere(mode: int) -> Evidence:
        def job(obj: dict[str, Any]) -> None:
            obj["spec"]["plugins"]["ssh"] = ["--ssh-key-file-path=/home/u/.ssh"]

        def pod(obj: dict[str, Any]) -> None:
            plugins_mpi.open_volume(obj)
            for volume in obj["spec"]["volumes"]:
                if "secret" in volume:
                    volume["secret"]["defaultMode"] = mode
            for box in obj["spec"]["containers"]:
                for mount in box["volumeMounts"]:
                    if mount["mountPath"] == ssh_causes.KEY_PATH:
                        mount["mountPath"] = "/home/u/.ssh"

        def keys(word: dict[str, Any]) -> None:
            word.update(folder="/home/u/.ssh", home="/home/u", uid=1000)
            for one in word["files"]:
                one["mode"] = f"{mode:04o}"

        evidence = plugins_mpi.objects("ssh", "Job.batch.volcano.sh", job)(recorded())
        return every("ssh-keys", keys)(plugins_mpi.objects("ssh", "Pod", pod)(evidence))

    assert ssh_logins.each_to_each(elsewhere(0o644)).verdict == "pass"
    assert ssh_logins.each_to_each(elsewhere(0o600)).verdict == "fail"


def test_a_group_that_owns_the_volumes_opens_the_keys() -> None:
    """With fsGroup 0600 becomes 0640, which the pod's specification tells and the mode alone does not."""

    def group(obj: dict[str, Any]) -> None:
        obj["spec"]["securityContext"] = {"fsGroup": 2000}

    def mode(word: dict[str, Any]) -> None:
        for one in word["files"]:
            one["mode"] = "0640"

    evidence = every("ssh-keys", mode)(plugins_mpi.objects("ssh", "Pod", group)(recorded()))
    finding = ssh_logins.each_to_each(evidence)
    assert (finding.verdict, finding.causes) == ("fail", (ssh_causes.FS_GROUP,))


@pytest.mark.parametrize(
    ("event", "change", "text", "cause"),
    [
        ("mpi-launch", lambda w: w.update(ok=False, code=127), "ended with 127", mpi_launch.NO_MPIEXEC),
        ("mpi-launch", lambda w: w.update(ok=False, code=124), "ended with 124", mpi_launch.HUNG),
        ("mpi-launch", lambda w: w.update(ok=False, code=213), "ended with 213", mpi_launch.DAEMONS),
        ("mpi-launch", lambda w: w.update(ok=True, code=1), "ended with 1", mpi_launch.DAEMONS),
        ("mpi-rank", lambda w: w.update(rank=0, world=1, sum=1.0), "a world of 1", mpi_launch.SINGLETONS),
        ("env", plugins_mpi.host_in_env(None), "MPI_HOST is absent", mpi_launch.OVERRIDDEN),
        ("env", plugins_mpi.host_in_env("localhost"), "documented", mpi_launch.OVERRIDDEN),
    ],
)
def test_a_failed_launch_has_its_cause(event: str, change: Change, text: str, cause: Cause) -> None:
    """What mpiexec said by its code, and what ranks said of themselves."""
    finding = mpi_launch.reaches_every_rank(plugins_mpi.told("mpi", event, change)(recorded()))
    assert (finding.verdict, finding.causes) == ("fail", (cause,))
    assert text in finding.observed


@pytest.mark.parametrize(
    "change",
    [
        {"rank": None}, {"rank": -1}, {"rank": 2}, {"rank": "zero"}, {"rank": True}, {"world": 3}, {"world": 0},
        {"sum": None}, {"sum": float("nan")}, {"sum": True}, {"sum": "3"}, {"host": ""},
        {"host": "mpi-mpi-mpimaster-0"}, {"host": "mpi-ssh-worker-0"},
    ],
    ids=str,
)  # fmt: skip
def test_a_rank_that_says_something_odd_never_passes(change: dict[str, Any]) -> None:
    """Numbers that are none, another world, a host that is no worker."""
    act = plugins_mpi.told("mpi", "mpi-rank", lambda w: w.update(change), once=True)
    assert mpi_launch.reaches_every_rank(act(recorded())).verdict != "pass"


@pytest.mark.parametrize(
    ("role", "event", "change"),
    [
        ("ssh", "ssh-login", {"ok": "true"}),
        ("ssh", "ssh-login", {"ok": None}),
        ("ssh", "ssh-login", {"said": ""}),
        ("ssh", "ssh-login", {"to": ""}),
        ("ssh", "ssh-login", {"to": "mpi-mpi-mpiworker-0"}),
        ("ssh", "ssh-keys", {"key": ""}),
        ("ssh", "ssh-keys", {"authorized": "yes"}),
        ("ssh", "ssh-keys", {"files": None}),
        ("ssh", "ssh-keys", {"folder": "/tmp/.ssh", "files": []}),
        ("mpi", "mpi-launch", {"hosts": []}),
        ("mpi", "mpi-launch", {"hosts": ["mpi-mpi-mpiworker-0.mpi-mpi"]}),
        ("mpi", "mpi-launch", {"ok": "yes"}),
        ("mpi", "ssh-login", {"said": "mpi-mpi-mpimaster-0"}),
        ("unplugged", "ssh-login", {"ok": True}),
        ("unplugged", "ssh-login", {"error": ""}),
        ("unplugged", "mpi-launch", {"ok": True}),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_no_pass(role: str, event: str, change: dict[str, Any]) -> None:
    """In each of the three Jobs."""
    judge = {
        "ssh": ssh_logins.each_to_each,
        "mpi": mpi_launch.reaches_every_rank,
        "unplugged": mpi_control.unreachable_without_plugins,
    }[role]
    assert judge(recorded()).verdict == "pass"
    act = plugins_mpi.told(role, event, lambda w: w.update(change), once=True)
    assert judge(act(recorded())).verdict != "pass"
