"""The archives. Each is a part of the cache: what is as it was before is not packed again."""

import errno
import hashlib
import os
import shutil
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpu_server import machine

from dev.kind.kit import programs
from dev.kind.kit.cache import Part, remove
from dev.kind.kit.shell import Failed, run

from . import parts

HERE = Path(__file__).resolve().parents[1]
REPOSITORY = HERE.parents[1]
COMPRESSED = ("--x86", "--lzma2=preset=6,dict=64MiB")
"""For xz: what calls and jumps name is made absolute first, which repeats more often."""
PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in (34, 31, 28, 27, 24, 17)), "manylinux2014_x86_64")
SUMS = "SHA256SUMS"
MOST = 100_000_000
"""Bytes of all files together: what is carried to a server by hand, and over slow links."""
SITE = "site"
"""Folder of Python packages; its file `python` says for which version."""


def compressed(folder: Path, out: Path) -> None:
    """Write a folder's contents as an archive; the same contents give the same bytes."""
    order = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"]
    run("tar", "--create", "--file", out.with_suffix(""), *order, "--directory", folder, ".")
    run("xz", "--threads=0", "--format=xz", *COMPRESSED, out.with_suffix(""))


def put_kubernetes(content: Path) -> None:
    """Put the programs of Kubernetes, which are one, into a folder."""
    (content / "kubernetes").mkdir(parents=True)
    _link(programs.KUBERNETES.made() / "kubernetes", content / "kubernetes/kubernetes")
    for name in machine.PARTS["kubernetes"]:
        (content / "kubernetes" / name).symlink_to("kubernetes")


def put_programs(content: Path) -> None:
    """Put the other programs, and the images of what runs in pods, into a folder."""
    for part in parts.PROGRAMS:
        shutil.copytree(
            part.made(), content / "programs", copy_function=_link, symlinks=True, dirs_exist_ok=True
        )
    for name, part in parts.IMAGES.items():
        made = part.made()
        source = made / name if (made / name).is_dir() else made
        shutil.copytree(source, content / "images" / name, copy_function=_link)


def put_server(content: Path) -> None:
    """Put what brings the cluster up into a folder."""
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(HERE / "gpu_server", content / "gpu_server", ignore=without)
    shutil.copytree(HERE / "declared", content / "declared")
    shutil.copy(HERE / "gpu-kubernetes", content)
    kit = Path("dev/kind/kit")
    (content / kit).mkdir(parents=True)
    shutil.copy(REPOSITORY / kit / "archive.py", content / kit)


def assemble(out: Path) -> None:
    """Make a folder as it is after the archives are unpacked, for a machine that has the Python packages."""
    out.mkdir(parents=True, exist_ok=True)
    for put in (put_kubernetes, put_programs, put_server):
        put(out)


def _link(source: str | Path, target: str | Path) -> None:
    """Have a file at a second place: the same one if both are on one disk."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copy(source, target)


def make_kubernetes(folder: Path) -> None:
    """Pack the programs of Kubernetes."""
    put_kubernetes(folder / "content")
    _close(folder / "content", folder / "kubernetes.tar.xz")


def make_programs(folder: Path) -> None:
    """Pack the other programs, and the images."""
    put_programs(folder / "content")
    _close(folder / "content", folder / "programs.tar.xz")


def python(version: str) -> Part:
    """Return the part that is the archive of what this package needs of Python, for a version of it."""
    asked = _requirements()

    def make(folder: Path) -> None:
        content, wheels = folder / "content", folder / "wheels"
        (content / SITE).mkdir(parents=True)
        options = ["--quiet", "--only-binary=:all:", f"--python-version={version}", "--implementation=cp"]
        options += [f"--abi={each}" for each in (f"cp{version.replace('.', '')}", "abi3", "none")]
        options += [f"--platform={each}" for each in PLATFORMS]
        run(sys.executable, "-m", "pip", "download", *options, "--dest", wheels, *asked)
        for wheel in sorted(wheels.glob("*.whl")):
            shutil.unpack_archive(wheel, content / SITE, "zip")
        (content / SITE / "python").write_text(f"{version}\n")
        remove(wheels)
        _close(content, folder / f"python-{version}.tar.xz")

    return Part(f"packed-python-{version}", make, says=[*COMPRESSED, *PLATFORMS, *asked])


def _requirements() -> list[str]:
    """Return what a run of the suite needs, as pyproject.toml says it."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    more = project["optional-dependencies"]
    return [*project["dependencies"], *more["html"], *more["parallel"]]


def make_suite(folder: Path) -> None:
    """Pack this package, and what brings the cluster up."""
    content = folder / "content"
    (content / SITE).mkdir(parents=True)
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        folder,
        REPOSITORY,
    )
    for wheel in folder.glob("*.whl"):
        shutil.unpack_archive(wheel, content / SITE, "zip")
        wheel.unlink()
    put_server(content)
    _close(content, folder / "suite.tar.xz")


def _close(content: Path, out: Path) -> None:
    compressed(content, out)
    remove(content)


def _sources() -> list[Path]:
    """Return what the archive of the suite is made of."""
    names = ("pytest_gpucluster", "suites", "payloads", "fixtures", "pyproject.toml", "README.md", "LICENSE")
    return [*(REPOSITORY / each for each in names), HERE, REPOSITORY / "dev/kind/kit/archive.py"]


KUBERNETES = Part("packed-kubernetes", make_kubernetes, says=COMPRESSED, uses=[programs.KUBERNETES])
PROGRAMS = Part(
    "packed-programs", make_programs, says=COMPRESSED, uses=[*parts.PROGRAMS, *parts.IMAGES.values()]
)


def suite() -> Part:
    """Return the part that is the archive of this package."""
    return Part("packed-suite", make_suite, sources=_sources(), says=COMPRESSED)


def pack(out: Path, made: Sequence[Part], most: int, whole: int = MOST) -> list[Path]:
    """Write archives into a folder, each in pieces of at most so many bytes, with what they are checked by.

    Raises:
        Failed: the folder holds something, or the files are larger together than `whole`.
    """
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise Failed(f"{out} is not empty: name a folder of its own")
    pieces = []
    for part in made:
        for archive in sorted(part.made().glob("*.tar.xz")):
            pieces += list(_cut(archive, out, most))
    shutil.copy(HERE / "unpack", out)
    lines = [
        f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n"
        for each in [*pieces, out / "unpack"]
    ]
    (out / SUMS).write_text("".join(lines))
    paths = [*pieces, out / "unpack", out / SUMS]
    if total(paths) > whole:
        sizes = ", ".join(f"{each.name} {each.stat().st_size / 1e6:.1f}" for each in pieces)
        raise Failed(f"{total(paths) / 1e6:.1f} MB are more than {whole / 1e6:.0f} MB: {sizes}")
    return paths


def _cut(archive: Path, out: Path, most: int) -> Iterator[Path]:
    size = archive.stat().st_size
    count = -(-size // most)
    with archive.open("rb") as file:
        for number in range(count):
            path = out / f"{archive.name}.{number + 1}-of-{count}"
            path.write_bytes(file.read(-(-size // count)))
            yield path


def total(paths: Sequence[Path]) -> int:
    """Return the bytes of files."""
    return sum(each.stat().st_size for each in paths)
