"""What a cluster needs of the kernel, and what is taken back when it goes: control groups and settings."""

import errno
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import places
from .failure import Failed

CONTROL_GROUPS = Path("/sys/fs/cgroup")
PROC = Path("/proc/sys")
CHANGED = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "fs/inotify/max_user_instances")
"""Settings that kubelets write, and the one that they use up."""
INSTANCES = 1024
BEFORE = "before.json"
NEEDED = ("cpu", "cpuset", "memory", "pids")
PATIENCE = 10.0
MOVED = "gpu-kubernetes-others"
"""Group into which processes of the root are moved where it may hold none while it divides."""


def version(root: Path = CONTROL_GROUPS) -> int:
    """Return which version of control groups has the controllers that pods need.

    Raises:
        Failed: neither has.
    """
    whole = root / "cgroup.controllers"
    if whole.is_file() and set(NEEDED) <= set(whole.read_text().split()):
        return 2
    missing = [name for name in NEEDED if not (root / name / "cgroup.procs").is_file()]
    if not missing:
        return 1
    raise Failed(
        f"neither version of control groups is usable below {root}: no controllers {', '.join(missing)}"
    )


def hierarchies(which: int) -> Iterator[Path]:
    """Yield the roots of the groups."""
    if which == 2:
        yield CONTROL_GROUPS
        return
    for each in sorted(CONTROL_GROUPS.iterdir()):
        if (
            (each / "cgroup.procs").is_file()
            and not (each / "cgroup.controllers").is_file()
            and not each.is_symlink()
        ):
            yield each


def make_groups(which: int, nodes: Sequence[places.Node]) -> None:
    """Make a group for each node, with all controllers."""
    if which == 2:
        _divide(CONTROL_GROUPS)
    for root in hierarchies(which):
        above = root / places.GROUP
        above.mkdir(exist_ok=True)
        _inherit(root, above)
        if which == 2:
            _divide(above)
        for node in nodes:
            (above / node.name).mkdir(exist_ok=True)
            _inherit(above, above / node.name)


def _inherit(above: Path, group: Path) -> None:
    """Give a group of version 1 the processors and the memory of the one above, without which it takes no process."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (group / name).is_file() and (group / "tasks").is_file():
            (group / name).write_text((above / name).read_text())


def _divide(group: Path) -> None:
    control = group / "cgroup.subtree_control"
    has = (group / "cgroup.controllers").read_text().split()
    wanted = " ".join(f"+{each}" for each in has)
    try:
        control.write_text(wanted)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _move(group, group / MOVED)
        control.write_text(wanted)


def _move(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for pid in (source / "cgroup.procs").read_text().split():
        try:
            (target / "cgroup.procs").write_text(pid)
        except OSError as error:
            # One of the kernel, or one that has just ended.
            if error.errno not in (errno.EINVAL, errno.ESRCH):
                raise


def remove_groups(which: int) -> None:
    """Remove what was made, from the leaves; processes that were moved go back."""
    # The runtime makes groups in the hierarchy of version 2 too, if it is there beside those of version 1.
    for root in [*hierarchies(which), CONTROL_GROUPS / "unified"]:
        above = root / places.GROUP
        if above.is_dir():
            groups = [each for each in above.rglob("*") if each.is_dir()]
            for each in sorted(groups, key=lambda path: len(path.parts), reverse=True):
                _remove(each)
            _remove(above)
    if (CONTROL_GROUPS / MOVED).is_dir():
        had = json.loads((places.STATE / BEFORE).read_text())["controllers"]
        now = (CONTROL_GROUPS / "cgroup.subtree_control").read_text().split()
        taken = " ".join(f"-{each}" for each in now if each not in had)
        (CONTROL_GROUPS / "cgroup.subtree_control").write_text(taken)
        _move(CONTROL_GROUPS / MOVED, CONTROL_GROUPS)
        (CONTROL_GROUPS / MOVED).rmdir()


def _remove(group: Path) -> None:
    """Remove a group; its processes were killed, and the last of them may take a moment to go."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            group.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return


def keep(which: int) -> None:
    """Write down what there is before the cluster."""
    settings = {name: (PROC / name).read_text() for name in CHANGED if (PROC / name).is_file()}
    control = CONTROL_GROUPS / "cgroup.subtree_control"
    has = control.read_text().split() if which == 2 else []
    (places.STATE / BEFORE).write_text(
        json.dumps({"cgroup": which, "settings": settings, "controllers": has})
    )
    file = PROC / "fs/inotify/max_user_instances"
    if int(file.read_text()) < INSTANCES:
        file.write_text(str(INSTANCES))


def take_back() -> None:
    """Set the kernel back to what it was before the cluster, and remove its groups."""
    try:
        before = json.loads((places.STATE / BEFORE).read_text())
    except FileNotFoundError:
        return
    remove_groups(before["cgroup"])
    for name, value in before["settings"].items():
        if (PROC / name).read_text() != value:
            (PROC / name).write_text(value)
