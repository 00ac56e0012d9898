"""Logins between members of a job, the folders of keys that they were given, and the ranks that mpiexec started."""

import dataclasses
from collections.abc import Iterable, Mapping

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory

PRIVATE, PUBLIC, AUTHORIZED, CONFIG = "id_rsa", "id_rsa.pub", "authorized_keys", "config"
FILES = (PRIVATE, PUBLIC, AUTHORIZED, CONFIG)
"""Files that the ssh plugin mounts (Volcano v1.14.4)."""


@dataclasses.dataclass(frozen=True)
class Login:
    """What became of one login, tried again while the other side was not there yet.

    Attributes:
        pod: who logged in.
        to: the host, as the client was given it.
        ok: the command ran at the other side and ended with 0.
        said: the name that the other side gave.
        error: what the client wrote.
    """

    pod: PodStory
    to: str
    ok: bool
    code: int | None
    said: str
    error: str
    key: str

    @property
    def target(self) -> str:
        """Return the host name of the pod that it went to."""
        return self.to.partition(".")[0]

    @property
    def contradictory(self) -> bool:
        """Report whether it is neither a login that came about nor one that failed: its code says otherwise."""
        return self.code is None or self.ok != (self.code == 0)

    @property
    def at_the_target(self) -> bool:
        """Report whether the other side is who it should be."""
        return self.said.partition(".")[0] == self.target


@dataclasses.dataclass(frozen=True)
class KeyFolder:
    """The folder of keys of one container, as its process found it.

    Attributes:
        modes: file -> its mode in octal digits.
        owners: file -> uid of its owner.
        uid: of the process.
        home: home folder of its account, in which clients and servers of SSH look.
        digest: of the public key, "" for none.
        authorized: that key may log in here.
    """

    pod: PodStory
    folder: str
    modes: Mapping[str, str]
    owners: Mapping[str, int]
    uid: int | None
    home: str
    digest: str
    authorized: bool
    key: str

    @property
    def looked_in(self) -> bool:
        """Report whether it is the folder in which SSH looks for keys of the process's account."""
        return self.folder == f"{self.home.rstrip('/')}/.ssh"


@dataclasses.dataclass(frozen=True)
class Rank:
    """A rank that spoke. `total` is the sum over all ranks of their number plus one, as it came."""

    rank: int | None
    world: int | None
    host: str
    total: float | None
    key: str


@dataclasses.dataclass(frozen=True)
class Launch:
    """What became of mpiexec."""

    pod: PodStory
    ok: bool
    code: int | None
    hosts: tuple[str, ...]
    error: str
    key: str

    @property
    def contradictory(self) -> bool:
        """Report whether it says neither that mpiexec did its work nor that it failed."""
        return self.code is None or self.ok != (self.code == 0)


def logins(evidence: Evidence, pods: Iterable[PodStory]) -> list[Login]:
    """Return the logins that pods told of, in order."""
    words = payload_lines.words(evidence)
    return [
        Login(
            pod, str(word.data.get("to") or ""), word.data.get("ok") is True, word.number("code"),
            str(word.data.get("said") or ""), str(word.data.get("error") or ""), word.key,
        )
        for pod in pods
        for word in words.of("ssh-login", pod.uid)
    ]  # fmt: skip


def key_folders(evidence: Evidence, pods: Iterable[PodStory]) -> dict[str, KeyFolder]:
    """Return pod uid -> its folder of keys, of the pods that told of it; the last word counts."""
    words = payload_lines.words(evidence)
    found = {}
    for pod in pods:
        word = words.last("ssh-keys", pod.uid)
        if word is None:
            continue
        listed = fields.items(word.data, "files")
        found[pod.uid] = KeyFolder(
            pod,
            str(word.data.get("folder") or ""),
            {str(one.get("name")): str(one.get("mode")) for one in listed},
            {str(one.get("name")): uid for one in listed if (uid := fields.number(one, "uid")) is not None},
            word.number("uid"),
            str(word.data.get("home") or ""),
            str(word.data.get("key") or ""),
            word.data.get("authorized") is True,
            word.key,
        )
    return found


def ranks(evidence: Evidence, launcher: PodStory) -> list[Rank]:
    """Return the ranks that spoke in a launcher's log."""
    found = []
    for word in payload_lines.words(evidence).of("mpi-rank", launcher.uid):
        total = word.data.get("sum")
        number = float(total) if isinstance(total, int | float) and not isinstance(total, bool) else None
        found.append(
            Rank(
                word.number("rank"), word.number("world"), str(word.data.get("host") or ""), number, word.key
            )
        )
    return found


def launches(evidence: Evidence, pods: Iterable[PodStory]) -> list[Launch]:
    """Return what became of the mpiexec of each of these pods."""
    words = payload_lines.words(evidence)
    return [
        Launch(
            pod, word.data.get("ok") is True, word.number("code"),
            _hosts(word.data.get("hosts")),
            str(word.data.get("error") or ""), word.key,
        )
        for pod in pods
        for word in words.of("mpi-launch", pod.uid)
    ]  # fmt: skip


def _hosts(stated: object) -> tuple[str, ...]:
    return tuple(str(host) for host in stated if host) if isinstance(stated, list) else ()
