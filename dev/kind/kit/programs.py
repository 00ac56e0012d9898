"""The programs of a node, from Go modules: static, pinned by a go.sum, built as they are needed.

All that is ours is one module, so that a package that two programs share is one version and is compiled once.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import places
from .cache import Part
from .shell import run

FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-gcflags=all=-dwarf=false")
"""The linker leaves debugging tables out: they need not be written by the compiler either, a seventh of its work."""
SETTINGS = {
    "CGO_ENABLED": "0",
    # A compiler that lives for seconds need not look for garbage, a quarter of its work, unless memory becomes short.
    "GOGC": "off",
    "GOMEMLIMIT": "1500MiB",
}
SMALL = "-s -w"
"""For the linker: without symbol tables."""
SHARED = ("go.mod", "go.sum")
"""Of the module that the programs are packages of."""


def compiled(
    name: str, package: str, folder: Path, ldflags: str, out: Path, *, tags: str = "", c: bool = False
) -> None:
    """Compile a package of a module into the program `name`.

    Args:
        name: of the program.
        package: of the module.
        folder: of the module.
        ldflags: for the linker.
        out: folder of the program.
        tags: which parts of it are built, as the module itself names them.
        c: whether parts of it are written in C.
    """
    chosen = ("-tags", tags) if tags else ()
    environment = {**SETTINGS, **({"CGO_ENABLED": "1"} if c else {})}
    run(
        "go",
        "build",
        *FLAGS,
        *chosen,
        "-ldflags",
        ldflags,
        "-o",
        out / name,
        package,
        cwd=folder,
        env=environment,
    )


def own(name: str, package: str = "", ldflags: str = SMALL, also: Sequence[str] = ()) -> Part:
    """Return the part that is one program, under one or more names: its folder below `programs/`, or a package."""
    package = package or f"./{name}"

    def make(folder: Path) -> None:
        compiled(name, package, places.PROGRAMS, ldflags, folder)
        for other in also:
            (folder / other).symlink_to(name)

    sources = [places.PROGRAMS / each for each in SHARED]
    sources += sorted((places.PROGRAMS / name).rglob("*.go"))
    return Part(name, make, sources=sources, says=[*FLAGS, package, ldflags, *also])


def published(
    name: str,
    module: str,
    version: str,
    packages: str | Mapping[str, str],
    ldflags: str = SMALL,
    *,
    tags: str = "",
    c: bool = False,
) -> Part:
    """Return the part that is one or more programs built in a published module as it is.

    Args:
        name: of the part, and of its program if there is one.
        module: that is built.
        version: of it.
        packages: the package of the program, or of each by its name.
        ldflags: for the linker.
        tags: which parts of it are built, as the module itself names them.
        c: whether parts of it are written in C.
    """
    programs = {name: packages} if isinstance(packages, str) else dict(packages)

    def make(folder: Path) -> None:
        for program, package in programs.items():
            theirs = module_folder(module, version)
            compiled(program, package, theirs, ldflags, folder, tags=tags, c=c)

    what = [packages] if isinstance(packages, str) else [word for each in programs.items() for word in each]
    return Part(name, make, says=[*FLAGS, module, version, *what, ldflags, *([tags] if tags else [])])


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
