"""The images of the control plane: one layer with every program, under the names that kubeadm asks for."""

import os
import re
import shutil
from pathlib import Path

from . import archive, places, programs, root
from .cache import Part, remove
from .shell import run

OF_KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
NETWORK = "kindest/podnetwork:local"
"""Of our own pod network; `node/default-cni.yaml` names it."""
LIBRARY = re.compile(r"(/lib\S*?/[^\s:]+)")


def asked_for() -> dict[str, str]:
    """Return the images that kubeadm asks for, by the last part of their names."""
    version = places.kubernetes_version()
    kubeadm = programs.KUBERNETES.made() / "kubeadm"
    names = run(kubeadm, "config", "images", "list", "--kubernetes-version", version).split()
    return {name.rpartition("/")[2].partition(":")[0]: name for name in names}


def make(folder: Path) -> None:
    """Write the archive."""
    layer = folder / "layer"
    fill(layer)
    names = asked_for()
    images = [
        archive.Image([names[each] for each in (*OF_KUBERNETES, "etcd")]),
        archive.Image([names["coredns"]], ["/coredns"]),
        archive.Image([names["pause"]], ["/pause"]),
        archive.Image([NETWORK], ["/network"]),
    ]
    archive.write(folder / "images.tar", layer, images)
    remove(layer)


def fill(layer: Path) -> None:
    """Put together the layer: the programs, and iptables with its libraries for the proxy."""
    skeleton(layer)
    binaries = layer / "usr/local/bin"
    everything = shutil.copy(programs.KUBERNETES.made() / "kubernetes", binaries / OF_KUBERNETES[0])
    for name in OF_KUBERNETES[1:]:
        os.link(everything, binaries / name)
    shutil.copy(programs.ETCD.made() / "etcd", binaries)
    for part in (programs.COREDNS, programs.PAUSE, programs.NETWORK):
        shutil.copy(part.made() / part.name, layer)
    iptables(layer, root.NODE.made() / "root")
    (layer / "etc/passwd").write_text("root:x:0:0:root:/:/bin/false\n")
    (layer / "etc/group").write_text("root:x:0:\n")
    shutil.copy(root.NODE.made() / "root/etc/ssl/certs/ca-certificates.crt", layer / "etc/ssl/certs")


def skeleton(layer: Path) -> None:
    """Make the folders of a machine that programs of Debian rely on."""
    for each in ("usr/local/bin", "usr/sbin", "usr/lib64", "usr/lib", "etc/ssl/certs", "run", "tmp", "var"):
        (layer / each).mkdir(parents=True, exist_ok=True)
    (layer / "tmp").chmod(0o1777)
    for name, target in (("lib", "usr/lib"), ("lib64", "usr/lib64"), ("sbin", "usr/sbin")):
        (layer / name).symlink_to(target)


def iptables(layer: Path, node: Path) -> None:
    """Copy iptables, its extensions and the libraries of both from the node's root."""
    program = "usr/sbin/xtables-nft-multi"
    shutil.copy(node / program, layer / program)
    for name in ("iptables", "ip6tables"):
        for verb in ("", "-save", "-restore"):
            (layer / "usr/sbin" / f"{name}{verb}").symlink_to("xtables-nft-multi")
    extensions = next((node / "usr/lib").glob("*/xtables")).relative_to(node)
    shutil.copytree(node / extensions, layer / extensions)
    linked = [f"/{program}", *(f"/{extensions}/{each.name}" for each in (node / extensions).glob("*.so"))]
    for name in set(LIBRARY.findall(run("chroot", node, "ldd", *linked))):
        if "/xtables/" not in name:
            (layer / name[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(node / name[1:], layer / name[1:])


CONTROL_PLANE = Part(
    "images",
    make,
    sources=[places.HERE / "kit" / each for each in ("images.py", "archive.py")],
    uses=[
        *(programs.KUBERNETES, programs.ETCD, programs.COREDNS, programs.PAUSE, programs.NETWORK),
        root.NODE,
    ],
)
