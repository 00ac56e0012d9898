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
REFUSED = "connect to host w-0 port 22: Connection refused"


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
        (f'Load key "/root/.ssh/id_rsa": Permission denied\n{DENIED}', ssh_causes.UNREADABLE),
        ("ssh: connect to host w-0 port 22: Permission denied", ssh_causes.UNKNOWN),
        (f"known_hosts: Permission denied\nssh: {REFUSED}", ssh_causes.NO_SERVER),
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
        (
            "mpi-launch",
            lambda w: w.update(ok=False, code=127, error="mpiexec: No such file or directory"),
            "ended with 127",
            mpi_launch.NO_MPIEXEC,
        ),
        ("mpi-launch", lambda w: w.update(ok=False, code=124), "ended with 124", mpi_launch.HUNG),
        ("mpi-launch", lambda w: w.update(ok=False, code=213), "ended with 213", mpi_launch.DAEMONS),
        ("mpi-launch", lambda w: w.update(ok=True, code=1), "ended with 1", mpi_launch.PROGRAM),
        (
            "mpi-launch",
            lambda w: w.update(ok=False, code=127, error="mpiexec: Permission denied"),
            "ended with 127",
            mpi_launch.NOT_STARTED,
        ),
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
        ("unplugged", "ssh-login", {"to": "mpi-unplugged-mpimaster-0"}),
        ("unplugged", "ssh-login", {"to": "host.of.somebody"}),
        ("unplugged", "ssh-login", {"error": "ssh: Permission denied", "code": 127}),
        ("unplugged", "ssh-login", {"error": "ssh: connect to host w port 22: Permission denied"}),
        ("unplugged", "ssh-login", {"error": f"known_hosts: Permission denied\nssh: {REFUSED}"}),
        ("unplugged", "ssh-login", {"code": 0}),
        ("unplugged", "ssh-login", {"code": None}),
        ("unplugged", "ssh-keys", {"key": "f" * 16}),
        ("unplugged", "ssh-keys", {"folder": "/nowhere"}),
        ("ssh", "ssh-login", {"code": 1}),
        ("ssh", "ssh-login", {"code": None}),
        ("ssh", "ssh-keys", {"folder": "/opt/image/.ssh", "home": "/opt/image"}),
        ("ssh", "ssh-keys", {"folder": ""}),
        ("ssh", "ssh-keys", {"home": "/home/u", "uid": 1000}),
        ("mpi", "mpi-launch", {"hosts": 7}),
        ("mpi", "mpi-launch", {"hosts": "ab"}),
        ("mpi", "mpi-launch", {"code": None}),
        ("mpi", "ssh-login", {"code": 255}),
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


@pytest.mark.parametrize(
    ("name", "mode", "cause"),
    [
        ("id_rsa", "0644", ssh_causes.TOO_OPEN),
        ("id_rsa", "0640", ssh_causes.TOO_OPEN),
        ("id_rsa", "0400", ssh_causes.OTHER_MODE),
        ("id_rsa", "0000", ssh_causes.OTHER_MODE),
        ("config", "0644", ssh_causes.OTHER_MODE),
        ("id_rsa.pub", "0644", ssh_causes.OTHER_MODE),
    ],
)
def test_a_mode_is_open_only_if_others_may_read_the_private_key(name: str, mode: str, cause: Cause) -> None:
    """Another mode has another cause."""

    def change(word: dict[str, Any]) -> None:
        for one in word["files"]:
            if one["name"] == name:
                one["mode"] = mode

    finding = ssh_logins.each_to_each(every("ssh-keys", change)(recorded()))
    assert (finding.verdict, finding.causes) == ("fail", (cause,))


@pytest.mark.parametrize(
    ("mode", "cause"),
    [(0o400, ssh_causes.OTHER_MODE), (0o644, ssh_causes.TOO_OPEN), (None, ssh_causes.TOO_OPEN)],
)
def test_a_volume_with_another_mode(mode: int | None, cause: Cause) -> None:
    """Kubernetes takes 0644 for none."""

    def change(pod: dict[str, Any]) -> None:
        for volume in pod["spec"]["volumes"]:
            if "secret" in volume:
                volume["secret"]["defaultMode"] = mode

    finding = ssh_logins.each_to_each(plugins_mpi.objects("ssh", "Pod", change)(recorded()))
    assert (finding.verdict, finding.causes) == ("fail", (cause,))


@pytest.mark.parametrize("mode", [384, "600", "0o600", None, "rw-------"])
def test_a_mode_that_nobody_can_read_is_no_wrong_mode(mode: object) -> None:
    """It is not known."""

    def change(word: dict[str, Any]) -> None:
        for one in word["files"]:
            one["mode"] = mode

    assert ssh_logins.each_to_each(every("ssh-keys", change)(recorded())).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("error", "code", "causes"),
    [
        ("ModuleNotFoundError: No module named 'mpi4py'\nTraceback", 1, (mpi_launch.PROGRAM,)),
        ("prterun detected that one or more processes exited with non-zero status", 1, (mpi_launch.PROGRAM,)),
        ("mpiexec was unable to find the specified executable file", 213, (mpi_launch.PROGRAM,)),
        ("A daemon on node w-0 failed to report back", 1, (mpi_launch.DAEMONS,)),
        ("", 213, (mpi_launch.DAEMONS,)),
        ("", 1, (mpi_launch.DAEMONS, mpi_launch.PROGRAM)),
        ("", 124, (mpi_launch.HUNG, mpi_launch.DAEMONS)),
        ("", 137, (mpi_launch.NOT_STARTED, mpi_launch.PROGRAM)),
        ("", -9, (mpi_launch.NOT_STARTED,)),
    ],
)
def test_a_launch_in_which_no_rank_spoke(error: str, code: int, causes: tuple[Cause, ...]) -> None:
    """Daemons are blamed if mpiexec blames them; what nobody tells has both candidates."""

    def change(word: dict[str, Any]) -> None:
        word.update(ok=False, code=code, error=error)

    evidence = plugins_mpi.lost("mpi", "mpi-rank")(plugins_mpi.lost("mpi", "mpi-rank")(recorded()))
    finding = mpi_launch.reaches_every_rank(plugins_mpi.told("mpi", "mpi-launch", change)(evidence))
    assert (finding.verdict, finding.causes) == ("fail", causes)
