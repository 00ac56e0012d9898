"""Folders that become the root of a container, from Debian's packages."""

from collections.abc import Sequence
from pathlib import Path

from . import places
from .cache import Part, remove
from .shell import run

UNREAD = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")
LEFT_OVER = ("var/cache/apt", "var/lib/apt/lists", "etc/machine-id", "etc/hostname", "etc/resolv.conf")

NODE_PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "conntrack", "iptables", "nftables", "iproute2", "ethtool"),
    *("util-linux", "mount", "kmod", "libseccomp2", "bash", "ca-certificates", "jq", "procps"),
    *("containerd", "runc", "containernetworking-plugins"),
)
"""What kind's own base image installs, with the container runtime from Debian."""
PAYLOAD_PACKAGES = ("python3", "libstdc++6", "libgomp1")
"""What torch's wheel takes from the system."""


def of_packages(name: str, packages: Sequence[str]) -> Part:
    """Return the part whose folder `root` holds the smallest Debian with some packages."""

    def make(folder: Path) -> None:
        root = folder / "root"
        options = ["--quiet", "--variant=minbase", "--mode=root", f"--include={','.join(packages)}"]
        options += ['--aptopt=APT::Install-Recommends "false"', "--dpkgopt=force-unsafe-io"]
        options += [f"--dpkgopt=path-exclude=/{each}/*" for each in UNREAD]
        run("mmdebstrap", *options, places.RELEASE, root, env={"DEBIAN_FRONTEND": "noninteractive"})
        for each in (*UNREAD, *LEFT_OVER):
            if (root / each).is_file() or (root / each).is_symlink():
                (root / each).unlink()
            else:
                remove(root / each)

    return Part(name, make, says=[places.RELEASE, *packages, *UNREAD, *LEFT_OVER])


NODE = of_packages("node-root", NODE_PACKAGES)
PAYLOAD = of_packages("payload-root", PAYLOAD_PACKAGES)
