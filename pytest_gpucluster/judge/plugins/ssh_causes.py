"""Why a login between members of a Job failed: told from what the client wrote and from the keys of both sides."""

import re
from collections.abc import Iterator, Mapping

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.evidence.training import ssh
from pytest_gpucluster.judge.plugins import volcano_jobs
from pytest_gpucluster.requirement import Cause

KEY_PATH = "/root/.ssh"
"""Where the plugin mounts the keys unless `--ssh-key-file-path` says otherwise."""
OCTAL = re.compile(r"[0-7]{4}")
"""A mode as members tell it."""
PRIVATE_MODE, OPEN_MODE = 0o600, 0o644
"""Modes of the keys at that path, and at any other one (Volcano v1.14.4)."""

NO_PLUGIN = Cause(
    "the Job has neither the ssh nor the mpi plugin: its pods have no keys",
    "add `plugins: {mpi: [--master=.., --worker=..]}` to the Job (it brings ssh and svc), or `ssh: []` and `svc: []`",
)
NO_KEYS = Cause(
    "the pod has no keys although the Job has the ssh plugin: its containers do not mount the Secret <job>-ssh, or the "
    "account of the process has its home elsewhere",
    "look at the volumeMounts of the pod, and whether `--ssh-key-file-path` is the .ssh of the image's user",
)
OTHER_HOME = Cause(
    "the image runs as another user than root: SSH looks for keys in the home of that user, the plugin mounts them at "
    f"{KEY_PATH}",
    "give the ssh plugin `--ssh-key-file-path=/home/USER/.ssh`; the keys then have mode 0644, and root must own them",
)
FS_GROUP = Cause(
    "securityContext.fsGroup of the pod opens the keys to a group: ssh uses no private key that others may read",
    "leave fsGroup out of Jobs over SSH, or copy the keys at the start and `chmod 600` them",
)
MODE_OF_PATH = Cause(
    "with `--ssh-key-file-path` the plugin gives the keys mode 0644, and their owner is who runs ssh: it uses no "
    "private key that others may read",
    f"leave `--ssh-key-file-path` out if the pods run as root ({KEY_PATH} has mode 0600), or copy the keys and "
    "`chmod 600` them",
)
TOO_OPEN = Cause(
    "others may read the private key, and ssh then does not use it",
    "look at defaultMode of the volume <job>-ssh (0600), and for what changes it: an admission webhook, an entrypoint",
)
OTHER_MODE = Cause(
    "the modes are not those of the ssh plugin: another volume is mounted there, or something changed them after the "
    "mount (an admission webhook, an entrypoint)",
    "look at the volumes and volumeMounts of the pod, at mutating webhooks, and at what the image does at its start",
)
UNREADABLE = Cause(
    "the process may not read its own private key: it runs as another user than the owner of the key",
    "run the container as root, or give the ssh plugin `--ssh-key-file-path=/home/USER/.ssh` and copy the keys to the "
    "user before ssh (`chmod 600`)",
)
KEYS_DIFFER = Cause(
    "the members have different key pairs: the Secret was made anew while some of them ran on, as after RestartPod or "
    "RestartTask, and mounts by subPath do not follow",
    "restart the whole Job (`RestartJob`), or give the plugin a pair of your own (`--ssh-private-key`, "
    "`--ssh-public-key`)",
)
NOT_AUTHORIZED = Cause(
    "the key of the Job is not among those that may log in (authorized_keys) where the login went",
    "look at authorized_keys in the Secret <job>-ssh, and for what replaces it in the image or at the start",
)
SERVER_REFUSES = Cause(
    "the server does not take the key although it is authorized: sshd_config forbids root (PermitRootLogin) or keys, "
    "or StrictModes refuses the files' modes or owners",
    "run `sshd -d` in a worker: it says why it refuses; look at PermitRootLogin, PubkeyAuthentication, StrictModes",
)
HOST_KEY = Cause(
    "the client does not trust the worker's host key: it is not known, or another one than before under this name, and "
    "the client's configuration is not the plugin's (StrictHostKeyChecking no)",
    "let ssh read the plugin's config (it is beside the keys), and remove known_hosts from the image",
)
NO_SERVER = Cause(
    "nothing listens on the SSH port of the worker",
    "start sshd in the worker's command (`/usr/sbin/sshd -D`), on the port that ssh uses: `--port` of the mpi plugin "
    "only declares a container port",
)
NO_NAME = Cause(
    "the worker's name does not resolve: the svc plugin did not act, or the pods' DNS does not answer",
    "look for the headless Service named as the Job, and at CoreDNS; `svc: [--publish-not-ready-addresses=true]` gives "
    "pods names before they are ready",
)
NO_WAY = Cause(
    "packets to the worker's SSH port are dropped: a NetworkPolicy, a service mesh or a firewall between the nodes",
    "open the port between the pods of the Job; look at NetworkPolicies of the namespace",
)
NO_CLIENT = Cause(
    "the image has no ssh",
    "use an image with OpenSSH's client and server (Debian: openssh-client, openssh-server)",
)
CONFIG_MODE = Cause(
    "others may write the client's configuration, or somebody else owns it: ssh then does nothing at all",
    "let root own the files of the Secret; look for what changes them after they are mounted",
)
UNKNOWN = Cause(
    "the client says what is not understood here",
    "run `ssh -v HOST true` in the launcher and read what it says",
)

_WORDS = (
    (re.compile(r"Could not resolve hostname", re.IGNORECASE), NO_NAME),
    (re.compile(r"Connection refused", re.IGNORECASE), NO_SERVER),
    (re.compile(r"timed out|No route to host|unreachable", re.IGNORECASE), NO_WAY),
    (re.compile(r"Host key verification failed|HOST IDENTIFICATION HAS CHANGED", re.IGNORECASE), HOST_KEY),
    (re.compile(r"Bad owner or permissions", re.IGNORECASE), CONFIG_MODE),
    (re.compile(r"ssh: (No such file|not found)|ssh: command not found", re.IGNORECASE), NO_CLIENT),
)  # fmt: skip
DENIED = re.compile(r"^\S+: Permission denied \([\w,-]+\)", re.IGNORECASE | re.MULTILINE)
"""What clients say when a server takes none of their keys; other things than keys are denied without its methods."""
LOCKED = re.compile(r'Load key "[^"]*": Permission denied', re.IGNORECASE)
BAD_KEY = re.compile(r"too open|bad permissions", re.IGNORECASE)


def of_login(evidence: Evidence, gang: Gang, login: ssh.Login) -> Cause:
    """Return why a login failed."""
    folders = ssh.key_folders(evidence, gang.pods)
    mine = folders.get(login.pod.uid)
    theirs = next((one for one in folders.values() if one.pod.name == login.target), None)
    if BAD_KEY.search(login.error):
        return of_mode(gang, mine)
    if LOCKED.search(login.error):
        return UNREADABLE
    if DENIED.search(login.error):
        return _of_denied(gang, mine, theirs)
    return next((cause for words, cause in _WORDS if words.search(login.error)), UNKNOWN)


def of_mode(gang: Gang, folder: ssh.KeyFolder | None) -> Cause:
    """Return why a private key is open to others."""
    pod = folder.pod.last if folder is not None else {}
    if fields.number(pod, "spec", "securityContext", "fsGroup") is not None:
        return FS_GROUP
    return MODE_OF_PATH if path_of(gang) != KEY_PATH else TOO_OPEN


def _of_denied(gang: Gang, mine: ssh.KeyFolder | None, theirs: ssh.KeyFolder | None) -> Cause:
    if not {"ssh", "mpi"} & set(gang.job.plugins if gang.job else ()):
        return NO_PLUGIN
    for folder in (mine, theirs):
        if folder is not None and ssh.PRIVATE not in folder.modes:
            return NO_KEYS
        if folder is not None and not folder.looked_in:
            return OTHER_HOME
    if mine is None or theirs is None:
        return UNKNOWN
    if mine.digest != theirs.digest:
        return KEYS_DIFFER
    return SERVER_REFUSES if theirs.authorized else NOT_AUTHORIZED


def _of_departure(gang: Gang, folder: ssh.KeyFolder, bad: Mapping[str, str], wanted: int) -> Cause:
    """Return why files of keys have other modes than the plugin's: only an open private key is an open key."""
    mode = int(bad[ssh.PRIVATE], 8) if ssh.PRIVATE in bad else 0
    more = mode & 0o077 & ~wanted
    if not more:
        return OTHER_MODE
    found = of_mode(gang, folder)
    # A group opens keys to itself, to nobody else; and a mode of the plugin is no departure from it.
    return found if found is FS_GROUP and not more & 0o007 else TOO_OPEN


def path_of(gang: Gang) -> str:
    """Return where the keys are to be mounted."""
    stated = volcano_jobs.flags(gang.job, "ssh").get("ssh-key-file-path", "") if gang.job else ""
    return stated or KEY_PATH


def departures(gang: Gang, folders: dict[str, ssh.KeyFolder]) -> Iterator[tuple[PodStory, str, Cause]]:
    """Yield how the keys of pods are not as the ssh plugin mounts them: (pod, what is wrong, why)."""
    path = path_of(gang)
    wanted = PRIVATE_MODE if path == KEY_PATH else OPEN_MODE
    secret = f"{gang.name}-ssh"
    for pod in gang.pods:
        for container in volcano_jobs.own_containers(gang, pod):
            where = f"{pod.name}/{container.get('name')}"
            mounts = [one for one in fields.items(container, "volumeMounts") if one.get("mountPath") == path]
            volumes = fields.items(pod.last, "spec", "volumes")
            sources = [
                fields.sub(v, "secret")
                for v in volumes
                if any(v.get("name") == m.get("name") for m in mounts)
            ]
            source = next((one for one in sources if one.get("secretName") == secret), None)
            if source is None:
                yield pod, f"{where}: Secret {secret} is not mounted at {path}", NO_KEYS
            elif fields.number(source, "defaultMode") != wanted:
                mode = fields.number(source, "defaultMode")
                said = "none" if mode is None else f"{mode:04o}"
                # Without any Kubernetes takes 0644.
                open_ = (0o644 if mode is None else mode) & 0o077 & ~wanted
                yield (
                    pod,
                    f"{where}: defaultMode of Secret {secret} is {said}, documented {wanted:04o}",
                    TOO_OPEN if open_ else OTHER_MODE,
                )
        folder = folders.get(pod.uid)
        if folder is not None:
            yield from _found(gang, folder, wanted)


def _found(gang: Gang, folder: ssh.KeyFolder, wanted: int) -> Iterator[tuple[PodStory, str, Cause]]:
    absent = [name for name in ssh.FILES if name not in folder.modes]
    if absent:
        yield folder.pod, f"{folder.pod.name}: {folder.folder} has no {', '.join(absent)}", NO_KEYS
    own = {name: mode for name, mode in folder.modes.items() if name in ssh.FILES and OCTAL.fullmatch(mode)}
    bad = {name: mode for name, mode in own.items() if mode != f"{wanted:04o}"}
    if bad:
        told = ", ".join(f"{name} {mode}" for name, mode in sorted(bad.items()))
        text = f"{folder.pod.name}: {folder.folder} has {told}, documented {wanted:04o}"
        yield folder.pod, text, _of_departure(gang, folder, bad, wanted)
