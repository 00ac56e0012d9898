"""The programs of a node, from Go modules: static, pinned by the go.sum beside each, built as they are needed."""

import json
from collections.abc import Sequence
from pathlib import Path

from . import places
from .cache import Part
from .shell import run

FLAGS = ("-trimpath", "-buildvcs=false")
STATIC = {"CGO_ENABLED": "0"}
SMALL = "-s -w"
"""For the linker: without symbol tables."""


def own(name: str, package: str = ".", ldflags: str = SMALL, also: Sequence[str] = ()) -> Part:
    """Return the part that is one program, under one or more names, built in its module below `programs/`."""

    def make(folder: Path) -> None:
        run(
            *("go", "build", *FLAGS, "-mod=readonly", "-ldflags", ldflags, "-o", folder / name, package),
            cwd=places.PROGRAMS / name,
            env=STATIC,
        )
        for other in also:
            (folder / other).symlink_to(name)

    sources = [
        each for pattern in ("*.go", "go.*") for each in sorted((places.PROGRAMS / name).rglob(pattern))
    ]
    return Part(name, make, sources=sources, says=[package, ldflags, *also])


def published(name: str, module: str, version: str, package: str, ldflags: str = SMALL) -> Part:
    """Return the part that is one program built in a published module as it is."""

    def make(folder: Path) -> None:
        run(
            *("go", "build", *FLAGS, "-mod=readonly", "-ldflags", ldflags, "-o", folder / name, package),
            cwd=module_folder(module, version),
            env=STATIC,
        )

    return Part(name, make, says=[module, version, package, ldflags])


def module_folder(module: str, version: str) -> Path:
    """Return the sources of a published module, downloaded where they are not there and checked by their sum."""
    said = run("go", "mod", "download", "-json", f"{module}@{version}", cwd=Path("/"))
    return Path(json.loads(said)["Dir"])


def stamped() -> str:
    """Return the linker flags that tell the Kubernetes programs their version.

    Kueue ends, and client-side checks go astray, where the API server names no semantic version.
    """
    version = places.kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    flags = [SMALL]
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        flags += [f"-X {package}.gitVersion={version}", f"-X {package}.gitMajor={major}"]
        flags += [f"-X {package}.gitMinor={minor}", f"-X {package}.gitTreeState=clean"]
    return " ".join(flags)


KUBERNETES = own("kubernetes", ldflags=stamped(), also=["kubeadm", "kubectl"])
"""API server, controller manager, scheduler, proxy, kubelet, kubeadm and kubectl in one: its name says which."""
ETCD = own("etcd", package="go.etcd.io/etcd/server/v3")
COREDNS = own("coredns")
NETWORK = own("network")
PAUSE = own("pause")
KIND = published("kind", "sigs.k8s.io/kind", places.KIND, ".")
KUEUE = published(
    "kueue",
    "sigs.k8s.io/kueue",
    places.KUEUE,
    "./cmd/kueue",
    f"{SMALL} -X sigs.k8s.io/kueue/pkg/version.GitVersion={places.KUEUE}",
)

ALL = (KUBERNETES, ETCD, COREDNS, NETWORK, PAUSE, KIND, KUEUE)
