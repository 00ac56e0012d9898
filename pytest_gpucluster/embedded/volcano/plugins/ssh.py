"""Plugin `ssh`: a key pair and a client configuration by which the pods of a Job reach each other."""

import base64
from collections.abc import Sequence

from pytest_gpucluster.embedded.objects import Obj, name_of, namespace_of
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.embedded.volcano.plugins import flags
from pytest_gpucluster.embedded.volcano.plugins.base import add_mount, everything, hosts
from pytest_gpucluster.embedded.volcano.plugins.keys import new_key_pair
from pytest_gpucluster.embedded.volcano.plugins.svc import create_owned

KEY_PATH = "/root/.ssh"
DEFAULTS = {"ssh-key-file-path": KEY_PATH, "ssh-private-key": "", "ssh-public-key": ""}
FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
"""Files of the Secret. The key in `id_rsa` is Ed25519 here; its name is Volcano's, ssh does not mind."""
PRIVATE_MODE, OPEN_MODE = 0o600, 0o644


class SshPlugin:
    """Makes the Secret `<job>-ssh` and mounts it in containers and init containers."""

    name = "ssh"

    def __init__(self, arguments: Sequence[str], *, open_keys: bool = False) -> None:
        """Read the arguments.

        Args:
            arguments: `--ssh-key-file-path`, `--ssh-private-key`, `--ssh-public-key`.
            open_keys: Let others read the keys whatever their path (a defect).
        """
        given = flags.parse(arguments, DEFAULTS)
        self._path = given["ssh-key-file-path"] or KEY_PATH
        self._open = open_keys
        self._private, self._public = given["ssh-private-key"], given["ssh-public-key"]

    def on_pod(self, pod: Obj, job: Obj, task: Obj, index: int) -> None:  # noqa: ARG002
        """Mount the Secret."""
        secret = f"{name_of(job)}-ssh"
        items = [{"key": name, "path": f".ssh/{name}"} for name in FILES]
        mode = PRIVATE_MODE if self._path == KEY_PATH and not self._open else OPEN_MODE
        volume = {"secretName": secret, "items": items, "defaultMode": mode}
        pod["spec"].setdefault("volumes", []).append({"name": secret, "secret": volume})
        add_mount(everything(pod), {"name": secret, "mountPath": self._path, "subPath": ".ssh"})

    def on_job(self, job: Obj, store: Store) -> None:
        """Create the Secret with a new key pair, unless it is there."""
        secret = f"{name_of(job)}-ssh"
        if store.peek("Secret", namespace_of(job), secret) is not None:
            return
        private, public = self._private, self._public
        if not private:
            pair = new_key_pair()
            private, public = pair.private, pair.public
        texts = dict(zip(FILES, (private, public, public, _config(job)), strict=True))
        data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        body: Obj = {"metadata": {"name": secret}, "type": "Opaque", "data": data}
        create_owned(store, "Secret", body, job)

    def on_end(self, job: Obj, store: Store) -> None:
        """Delete the Secret."""
        store.delete("Secret", namespace_of(job), f"{name_of(job)}-ssh")


def _config(job: Obj) -> str:
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job["spec"].get("tasks") or []:
        for full in hosts(job, task):
            lines += [f"Host {full.partition('.')[0]}", f"  HostName {full}"]
    return "\n".join(lines) + "\n"
