"""The parts that dev/kind has not: programs from published modules, CoreDNS and Kueue as images."""

import shutil
from pathlib import Path

from dev.kind.kit import addons, archive, images, programs, root
from dev.kind.kit.cache import Part, remove

RUNC = programs.published(
    "runc",
    "github.com/opencontainers/runc",
    "v1.5.3",
    ".",
    "-s -w -extldflags=-static",
    # The runtime refuses every pod if the program knows no seccomp.
    tags="netgo osusergo seccomp",
    c=True,
)
CONTAINERD = programs.published(
    "containerd",
    "github.com/containerd/containerd/v2",
    "v2.4.2",
    {name: f"./cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
    tags="no_btrfs no_devmapper no_zfs no_aufs",
)
POD_NETWORK = programs.published(
    "pod-network",
    "github.com/containernetworking/plugins",
    "v1.10.0",
    {
        "ptp": "./plugins/main/ptp",
        "loopback": "./plugins/main/loopback",
        "host-local": "./plugins/ipam/host-local",
        "portmap": "./plugins/meta/portmap",
    },
)
DEVICE_PLUGIN = programs.published(
    "nvidia-device-plugin",
    "github.com/NVIDIA/k8s-device-plugin",
    "v0.19.0",
    "./cmd/nvidia-device-plugin",
    # It looks NVML's functions up when it calls them, on a machine that has the driver.
    "-s -w -extldflags=-Wl,-z,lazy",
    c=True,
)
DNS_IMAGE = "gpu-kubernetes/coredns:1"
IPTABLES = "iptables-root"
NAMES = tuple(f"{family}{verb}" for family in ("iptables", "ip6tables") for verb in ("", "-save", "-restore"))
WRAPPER = f"""#!/bin/sh
# With the libraries that it was built for, whatever the machine has.
exec chroot "$(dirname "$(readlink -f "$0")")/{IPTABLES}" "/usr/sbin/$(basename "$0")" "$@"
"""


def make_coredns(folder: Path) -> None:
    """Write the archive of an image that has nothing but CoreDNS."""
    layer = folder / "layer"
    layer.mkdir()
    shutil.copy(programs.COREDNS.made() / "coredns", layer)
    archive.write(folder / "image.tar", layer, [archive.Image([DNS_IMAGE], ["/coredns"])])
    remove(layer)


COREDNS = Part("coredns-image", make_coredns, says=[DNS_IMAGE], uses=[programs.COREDNS])


def make_iptables(folder: Path) -> None:
    """Fill a small root with iptables, and put programs beside it that change into it."""
    small = folder / IPTABLES
    images.skeleton(small)
    images.iptables(small, root.NODE.made() / "root")
    for name in NAMES:
        (folder / name).write_text(WRAPPER)
        (folder / name).chmod(0o755)


PROXY_RULES = Part(
    "iptables", make_iptables, sources=[Path(images.__file__)], says=[WRAPPER, *NAMES], uses=[root.NODE]
)

PROGRAMS = (programs.ETCD, programs.PAUSE, RUNC, CONTAINERD, POD_NETWORK, DEVICE_PLUGIN, PROXY_RULES)
"""What the archive `programs` holds, each file of each part in one folder."""
IMAGES = {"coredns": COREDNS, "kueue": addons.KUEUE}
"""What the folder `images` holds; that of Kueue is the folder of a folder of add-ons."""
