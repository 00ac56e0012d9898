"""The payload of jobs over SSH: what it tells of keys, how it tries logins, and when it launches."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys

import pytest

from payloads import ssh_members

PROGRAM = pathlib.Path(ssh_members.__file__)
PUBLIC, PRIVATE = "ssh-ed25519 AAAAC3Nz j\n", "-----BEGIN OPENSSH PRIVATE KEY-----\nhidden\n"


def program(folder: pathlib.Path, name: str, script: str) -> None:
    """Write a program that stands in for one of the image."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def keys(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with keys as the ssh plugin mounts them."""
    folder = tmp_path / "keys"
    folder.mkdir()
    for name, text in (
        ("id_rsa", PRIVATE),
        ("id_rsa.pub", PUBLIC),
        ("authorized_keys", PUBLIC),
        ("config", ""),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    return folder


def told(
    folder: pathlib.Path, keys: pathlib.Path, *words: str, **env: str
) -> tuple[int, dict[str, list[dict]]]:
    """Run the payload with the programs of a folder; return its exit code, and its facts by event."""
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    code = (
        f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import ssh_members; "
        f"ssh_members.SSHD = {str(folder / 'sshd')!r}; ssh_members.RUN = {str(folder)!r}; "
        f"sys.argv = ['ssh_members.py', *{list(words)!r}, '--folder={keys}']; sys.exit(ssh_members.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PATH": path, **env}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    found: dict[str, list[dict]] = {}
    for line in done.stdout.splitlines():
        word = json.loads(line.partition(" ")[2])
        found.setdefault(word["event"], []).append(word)
    assert not done.stderr, done.stderr
    return done.returncode, found


def test_a_launcher_logs_in_to_each_host_and_then_launches(tmp_path, keys):
    """One rank for each host of MPI_HOST; the code of mpiexec is its own."""
    program(tmp_path, "sshd", "exit 0")
    program(tmp_path, "ssh", 'while [ "$1" = -o ]; do shift 2; done; echo "${1%%.*}"')
    program(tmp_path, "mpiexec", f'echo "$@" > {tmp_path}/asked; echo ends >&2; exit 3')
    code, facts = told(tmp_path, keys, "launcher", MPI_HOST="w-0.j,w-1.j")
    assert code == 3
    assert [(one["to"], one["said"], one["ok"]) for one in facts["ssh-login"]] == [
        ("w-0.j", "w-0", True), ("w-1.j", "w-1", True),
    ]  # fmt: skip
    (launch,) = facts["mpi-launch"]
    assert (launch["ok"], launch["code"], launch["error"]) == (False, 3, "ends")
    assert "--host w-0.j,w-1.j -np 2" in (tmp_path / "asked").read_text()


def test_a_launcher_without_hosts_still_tries_the_logins(tmp_path, keys):
    """The contrast: it tells how the workers answer, and launches nothing."""
    program(tmp_path, "sshd", "exit 0")
    program(tmp_path, "ssh", 'echo "root@w: Permission denied (publickey)." >&2; exit 255')
    program(tmp_path, "mpiexec", f"touch {tmp_path}/asked")
    code, facts = told(tmp_path, keys, "launcher", "--to=w-0.j")
    assert code == 1
    assert facts["mpi-launch"][0]["error"] == "MPI_HOST is not set"
    (login,) = facts["ssh-login"]
    assert (login["ok"], login["code"], login["tries"]) == (False, 255, 1)
    assert not (tmp_path / "asked").exists()


def test_a_login_is_tried_again_while_nobody_listens(tmp_path, keys):
    """Until the server is there; what is refused for want of a key is not tried again."""
    program(tmp_path, "sshd", "exit 0")
    first = f"[ -e {tmp_path}/tried ] && exec echo w-0; touch {tmp_path}/tried"
    program(
        tmp_path, "ssh", f"{first}; echo 'ssh: connect to host w-0 port 22: Connection refused' >&2; exit 255"
    )
    program(tmp_path, "mpiexec", "exit 0")
    code, facts = told(tmp_path, keys, "launcher", MPI_HOST="w-0.j")
    assert code == 0
    assert [(one["ok"], one["tries"]) for one in facts["ssh-login"]] == [(True, 2)]


@pytest.mark.parametrize("absent", ["sshd", "ssh", "mpiexec"])
def test_a_program_that_the_image_lacks_is_named(tmp_path, keys, absent):
    """Told as a fact, not as a traceback."""
    for name, script in (("sshd", "exit 0"), ("ssh", "echo w-0"), ("mpiexec", "exit 0")):
        if name != absent:
            program(tmp_path, name, script)
    # Nothing of this machine may stand in for it.
    code, facts = told(tmp_path, keys, "launcher", MPI_HOST="w-0.j", PATH=str(tmp_path))
    event = {"sshd": "ssh-serving", "ssh": "ssh-login", "mpiexec": "mpi-launch"}[absent]
    (word,) = facts[event]
    assert (word["ok"], word["code"]) == (False, 127)
    assert absent in word["error"]
    assert (code == 0) == (absent == "sshd")


def test_modes_are_told_and_no_key_is(tmp_path, keys):
    """The public key is told by a digest of itself, the private one not at all."""
    (keys / "id_rsa").chmod(0o640)
    program(tmp_path, "sshd", "exit 0")
    _, facts = told(tmp_path, keys, "launcher")
    (word,) = facts["ssh-keys"]
    assert {one["name"]: one["mode"] for one in word["files"]} == {
        "authorized_keys": "0600", "config": "0600", "id_rsa": "0640", "id_rsa.pub": "0600",
    }  # fmt: skip
    assert word["key"] == hashlib.sha256(b"AAAAC3Nz").hexdigest()[:16]
    assert word["authorized"] is True
    assert "hidden" not in json.dumps(facts)
    assert "AAAAC3Nz" not in json.dumps(facts)
