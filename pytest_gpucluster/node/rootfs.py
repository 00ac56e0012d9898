"""The file system of a container: the host below, memory above, volumes in their places.

A container's root is a folder in memory. Each folder at the top of the host is shown in it in one of four ways:
as an overlay with its writable layer in memory, as a read-only bind, as a fresh folder, or, where mounts that
came from the host lie below it and a volume must be placed in it, entry by entry. An overlay of `/` itself is not
possible: in a user namespace the kernel refuses a lower layer that has locked mounts below it.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_gpucluster.node.hardware import Shown

# Overlaid in every container; other folders only where a volume is placed in them.
WRITABLE = ("etc", "tmp", "root", "var")
# Made new in every container; the host's content is not shown.
FRESH = ("proc", "sys", "dev", "run", "lost+found")
# What every container sees of /dev; GPUs and adapters are shown to those only that were given them.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse")
DEVICE_LINKS = {
    "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}  # fmt: skip
SHM = "/dev/shm"  # noqa: S108 - the container's, private to its pod
_OCTAL = str.maketrans({"\\": "\\134", " ": "\\040", "\t": "\\011", "\n": "\\012"})


@dataclass(frozen=True)
class Mount:
    """Something placed in a container: a volume, a part of one, or a single file.

    Attributes:
        target: Absolute path in the container.
        source: Path on the node.
        read_only: Whether the container may write.
        from_host: Whether the source is the host's own (and may have mounts below it).
    """

    target: str
    source: Path
    read_only: bool = False
    from_host: bool = False


@dataclass(frozen=True)
class HostLayout:
    """How each folder at the top of the host can be shown.

    Attributes:
        links: Name -> target of symbolic links at the top.
        lower: Name -> folder that can be the lower layer of an overlay.
        binds: Names of folders that can only be bound.
        sysfs: Whether a new /sys can be mounted; otherwise the host's is bound.
        devices: Device files that every container sees.
    """

    links: Mapping[str, str]
    lower: Mapping[str, Path]
    binds: frozenset[str]
    sysfs: bool
    devices: tuple[Path, ...]


def probe_layout(work: Path) -> HostLayout:
    """Find out by trial how the host's folders can be shown; called once, inside the sandbox.

    Args:
        work: A folder in memory for the trial mounts.
    """
    links: dict[str, str] = {}
    folders: list[str] = []
    for entry in sorted(Path("/").iterdir()):
        if entry.is_symlink():
            links[entry.name] = str(entry.readlink())
        elif entry.name not in FRESH and entry.is_dir() and os.access(entry, os.R_OK | os.X_OK):
            folders.append(entry.name)
    overlaid, sysfs = _try_overlays(work, folders)
    lower = {name: Path("/") / name for name in folders if name in overlaid}
    if "etc" not in lower and "etc" in folders:
        # Container engines bind files into /etc, which forbids an overlay of it. It is small: copy it.
        lower["etc"] = _copy_etc(work / "etc")
    binds = frozenset(name for name in folders if name not in lower)
    found = [Path("/dev") / name for name in DEVICES if (Path("/dev") / name).exists()]
    return HostLayout(links, lower, binds, sysfs, tuple(found))


def _try_overlays(work: Path, folders: Sequence[str]) -> tuple[set[str], bool]:
    trial = work / "trial"
    lines = []
    for name in folders:
        if any(ch in name for ch in ":,\\ \t\n"):
            continue
        for part in ("upper", "work", "merged"):
            (trial / part / name).mkdir(parents=True)
        lines.append(
            _overlay(Path("/") / name, trial / "merged" / name, trial / "upper" / name, trial / "work" / name)
        )
    (trial / "sys").mkdir(parents=True)
    lines.append(f"sysfs {trial}/sys sysfs ro 0 0")
    fstab = trial / "fstab"
    fstab.write_text("\n".join(lines) + "\n")
    script = 'mount --all --fstab "$1" 2>/dev/null; cat /proc/self/mountinfo'
    done = subprocess.run(
        ["unshare", "--mount", "--net", "sh", "-c", script, "sh", str(fstab)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    mounted = {line.split()[4] for line in done.stdout.splitlines()}
    good = {name for name in folders if str(trial / "merged" / name) in mounted}
    shutil.rmtree(trial)
    return good, f"{trial}/sys" in mounted


def _copy_etc(target: Path) -> Path:
    target.mkdir(parents=True)
    subprocess.run(["cp", "-a", "/etc/.", str(target)], capture_output=True, check=False)
    return target


def _overlay(lower: Path, merged: Path, upper: Path, work: Path) -> str:
    # userxattr: the only kind of overlay attribute that a user namespace may write (Linux 5.11).
    options = f"userxattr,lowerdir={lower},upperdir={upper},workdir={work}"
    return f"overlay {merged} overlay {options.translate(_OCTAL)} 0 0"


def locked_options(path: Path) -> list[str]:
    """Return the mount options that a read-only bind of a host path must repeat, since they are locked."""
    flags = os.statvfs(path).f_flag
    names = {
        os.ST_NOSUID: "nosuid", os.ST_NODEV: "nodev", os.ST_NOEXEC: "noexec",
        os.ST_NOATIME: "noatime", os.ST_NODIRATIME: "nodiratime", os.ST_RELATIME: "relatime",
    }  # fmt: skip
    return [name for bit, name in names.items() if flags & bit]


@dataclass
class Rootfs:
    """Builds the folders and the mount table of one container."""

    base: Path
    layout: HostLayout
    _lines: list[str] = field(default_factory=list)
    _overlaid: set[str] = field(default_factory=set)
    _expanded: set[str] = field(default_factory=set)

    @property
    def root(self) -> Path:
        """Return the folder that becomes the container's root."""
        return self.base / "root"

    @property
    def fstab(self) -> Path:
        """Return the mount table that the container's first process applies."""
        return self.base / "fstab"

    def build(
        self,
        *,
        etc_files: Mapping[str, str],
        shm: Path,
        mounts: Iterable[Mount],
        devices: Iterable[Shown] = (),
    ) -> None:
        """Make every folder and write the mount table.

        Args:
            etc_files: Name -> content of files in /etc.
            shm: Folder shared by the containers of the pod as /dev/shm.
            mounts: What to place; a later entry for the same target wins.
            devices: Device files that this container sees beside those that every one sees.

        Raises:
            OSError: when a place for a volume cannot be made.
        """
        placed = {os.path.normpath("/" + m.target.lstrip("/")): m for m in mounts}
        self.root.mkdir(parents=True)
        self._lines = [_bind(self.root, self.root)]
        wanted = {_top(self._resolve(target)) for target in placed} | set(WRITABLE)
        self._show_host(wanted, [self._resolve(target) for target in placed])
        self._kernel_folders(None if SHM in placed else shm)
        self._show_devices([*((str(path), path) for path in self.layout.devices), *devices])
        etc = self.base / "upper" / "etc" if "etc" in self._overlaid else self.root / "etc"
        for name, text in etc_files.items():
            (etc / name).write_text(text)
        done: dict[str, Mount] = {}
        for target in sorted(placed, key=lambda t: (t.count("/"), t)):
            self._place(target, placed[target], done)
            done[target] = placed[target]
        self.fstab.write_text("\n".join(self._lines) + "\n")

    def _show_host(self, wanted: set[str], targets: Sequence[str]) -> None:
        for name, link in self.layout.links.items():
            (self.root / name).symlink_to(link)
        for name in sorted({*self.layout.lower, *self.layout.binds, *WRITABLE}):
            inside = [t for t in targets if _top(t) == name and t != f"/{name}"]
            (self.root / name).mkdir()
            if name in self.layout.lower and name in wanted:
                self._add_overlay(name)
            elif name in self.layout.binds and (inside or name in WRITABLE):
                self._expand(Path("/") / name, inside)
            elif name in self.layout.lower or name in self.layout.binds:
                self._lines.append(_read_only(Path("/") / name, self.root / name))
        if "tmp" not in self._overlaid:
            (self.root / "tmp").chmod(0o1777)

    def _add_overlay(self, name: str) -> None:
        lower = self.layout.lower[name]
        upper, work = self.base / "upper" / name, self.base / "work" / name
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        upper.chmod(lower.stat().st_mode & 0o7777)
        self._overlaid.add(name)
        self._lines.append(_overlay(lower, self.root / name, upper, work))

    def _expand(self, folder: Path, targets: Sequence[str]) -> None:
        """Show a folder entry by entry, so that places can be made in it."""
        self._expanded.add(str(folder))
        own = self.root / str(folder).lstrip("/")
        own.mkdir(exist_ok=True)
        for entry in folder.iterdir():
            shown = own / entry.name
            inside = [t for t in targets if t.startswith(f"{entry}/")]
            if entry.is_symlink():
                shown.symlink_to(entry.readlink())
            elif entry.is_dir() and inside:
                self._expand(entry, inside)
            elif entry.is_dir():
                shown.mkdir()
                self._lines.append(_read_only(entry, shown))
            elif entry.is_file() and os.access(entry, os.R_OK):
                shown.touch()
                self._lines.append(_read_only(entry, shown))

    def _kernel_folders(self, shm: Path | None) -> None:
        for name in ("proc", "sys", "run", "dev/pts", "dev/shm", "dev/mqueue"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        self._lines.append(f"proc {_q(self.root)}/proc proc nosuid,nodev,noexec 0 0")
        if self.layout.sysfs:
            self._lines.append(f"sysfs {_q(self.root)}/sys sysfs ro,nosuid,nodev,noexec 0 0")
        else:
            self._lines.append(_bind(Path("/sys"), self.root / "sys", recursive=True))
        self._lines.append(f"devpts {_q(self.root)}/dev/pts devpts newinstance,ptmxmode=0666,mode=0620 0 0")
        for name, link in DEVICE_LINKS.items():
            (self.root / "dev" / name).symlink_to(link)
        if shm is not None:
            self._lines.append(_bind(shm, self.root / "dev/shm"))

    def _show_devices(self, devices: Iterable[Shown]) -> None:
        for target, source in devices:
            shown = self.root / target.lstrip("/")
            shown.parent.mkdir(parents=True, exist_ok=True)
            shown.mkdir() if source.is_dir() else shown.touch()
            self._lines.append(_bind(source, shown, recursive=source.is_dir()))

    def _resolve(self, target: str) -> str:
        return os.path.realpath(target)

    def _place(self, target: str, mount: Mount, done: Mapping[str, Mount]) -> None:
        outer = next((t for t in sorted(done, key=len, reverse=True) if target.startswith(f"{t}/")), None)
        if outer is not None:
            point = done[outer].source / target[len(outer) + 1 :]
            shown = target
            if not done[outer].from_host:
                _make_point(point, mount.source.is_dir(), None)
        else:
            shown = self._resolve(target)
            self._make_place(shown, folder=mount.source.is_dir())
        where = self.root / shown.lstrip("/")
        if mount.read_only and mount.from_host:
            self._lines.append(_read_only(mount.source, where))
        else:
            line = _bind(mount.source, where, recursive=mount.from_host, read_only=mount.read_only)
            self._lines.append(line)

    def _make_place(self, target: str, *, folder: bool) -> None:
        top = _top(target)
        if top in self._overlaid:
            lower = self.layout.lower[top]
            inner = target[len(top) + 2 :]
            _make_point(self.base / "upper" / top / inner, folder, (self.base / "upper" / top, lower))
        elif top not in ("proc", "sys"):
            _make_point(self.root / target.lstrip("/"), folder, None)


def _make_point(point: Path, folder: bool, layers: tuple[Path, Path] | None) -> None:
    """Make a folder or file to mount on; folders on the way get the modes of the layer below."""
    chain = [*reversed(point.parents), *([point] if folder else [])]
    for part in chain:
        if part.is_dir():
            continue
        part.mkdir()
        if layers is not None and part.is_relative_to(layers[0]):
            below = layers[1] / part.relative_to(layers[0])
            if below.is_dir() and os.access(below, os.R_OK | os.X_OK):
                part.chmod(below.stat().st_mode & 0o7777)
    if not folder and not point.exists():
        point.touch()


def _top(target: str) -> str:
    return target.lstrip("/").partition("/")[0]


def _q(path: Path) -> str:
    return str(path).translate(_OCTAL)


def _bind(source: Path, target: Path, *, recursive: bool = False, read_only: bool = False) -> str:
    options = ("rbind" if recursive else "bind") + (",ro" if read_only else "")
    return f"{_q(source)} {_q(target)} none {options} 0 0"


def _read_only(source: Path, target: Path) -> str:
    options = ",".join(["rbind", "ro", *locked_options(source)])
    return f"{_q(source)} {_q(target)} none {options} 0 0"
