"""The node image: Debian, what kind puts into its own, the Kubernetes programs, and the images already unpacked."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import archive, images, places, programs, root
from .cache import Part, remove
from .shell import Failed, need, run

SITE_PACKAGES = "/opt/site-packages"
"""Empty in the image; where something is mounted over it, every container of the node sees that as Python packages."""

CNI_PLUGINS = ("ptp", "host-local", "loopback", "portmap")
ENABLED = ("kubelet", "containerd", "undo-mount-hacks")
UNWANTED = (
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
    "lib/systemd/system/multi-user.target.wants/*",
    "lib/systemd/system/local-fs.target.wants/*",
    "lib/systemd/system/sockets.target.wants/*udev*",
    "lib/systemd/system/sockets.target.wants/*initctl*",
    "lib/systemd/system/basic.target.wants/*",
    "etc/systemd/system/*.wants/*",
)
"""Units that a container has no use for: the list of kind's own base image."""
LARGE = 1 << 20


def make(folder: Path) -> None:
    """Fill `root`."""
    node = folder / "root"
    run("cp", "-a", root.NODE.made() / "root", node)
    kind_files(node)
    runtime(node)
    systemd(node)
    shutil.copy(programs.KUBERNETES.made() / "kubernetes", node / "usr/bin/kubernetes")
    for name in ("kubeadm", "kubelet", "kubectl"):
        (node / "usr/bin" / name).symlink_to("kubernetes")
    (node / "kind/version").write_text(places.kubernetes_version())
    for manifest in (places.HERE / "node").glob("*.yaml"):
        shutil.copy(manifest, node / "kind/manifests")
    unpack(images.CONTROL_PLANE.made() / "images.tar", node / "var/lib/containerd", folder / "unpacking")


def kind_files(node: Path) -> None:
    """Copy what kind's base image copies, from kind's own module."""
    theirs = programs.module_folder("sigs.k8s.io/kind", places.KIND) / "images/base/files"
    for each in ("etc", "kind", "usr"):
        for source in sorted((theirs / each).rglob("*")):
            if source.is_file():
                target = node / source.relative_to(theirs)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
                target.chmod(0o755 if "bin" in source.relative_to(theirs).parts else 0o644)
    for each in ("kind/manifests", "etc/kubernetes/manifests", "opt/cni/bin", SITE_PACKAGES[1:]):
        (node / each).mkdir(parents=True, exist_ok=True)


def runtime(node: Path) -> None:
    """Set up containerd: kubeadm's pause image, no negative out-of-memory scores, the containers' base."""
    file = node / "etc/containerd/config.toml"
    text = file.read_text()
    for pattern, value in (
        (r'(sandbox_image = )"[^"]*"', rf'\1"{images.asked_for()["pause"]}"'),
        (r"(restrict_oom_score_adj = )false", r"\1true"),
    ):
        text, found = re.subn(pattern, value, text)
        if not found:
            raise Failed(f"dev/kind: kind {places.KIND} has no {pattern} in its containerd configuration")
    file.write_text(text)
    base = json.loads(run("chroot", node, "ctr", "oci", "spec"))
    base.setdefault("hooks", {}).setdefault("createContainer", []).append(
        {"path": "/kind/bin/mount-product-files.sh"}
    )
    base["process"].pop("rlimits", None)
    base["mounts"].append(
        {
            "destination": python_packages(),
            "type": "bind",
            "source": SITE_PACKAGES,
            "options": ["rbind", "ro"],
        }
    )
    (node / "etc/containerd/cri-base.json").write_text(json.dumps(base, indent=1))
    for name in ("containerd", "ctr", "containerd-shim-runc-v2"):
        (node / "usr/local/bin" / name).symlink_to(f"/usr/bin/{name}")
    (node / "usr/local/sbin").mkdir(exist_ok=True)
    (node / "usr/local/sbin/runc").symlink_to("/usr/sbin/runc")
    for name in CNI_PLUGINS:
        shutil.copy(node / "usr/lib/cni" / name, node / "opt/cni/bin")


def python_packages() -> str:
    """Return where the Python of the payload image looks for packages that no package manager installed."""
    library = next((root.PAYLOAD.made() / "root/usr/lib").glob("python3.*"))
    return f"/usr/local/lib/{library.name}/dist-packages"


def systemd(node: Path) -> None:
    """Leave the units that a node needs."""
    for pattern in UNWANTED:
        for unit in node.glob(pattern):
            unit.unlink()
    wanted = node / "etc/systemd/system/multi-user.target.wants"
    wanted.mkdir(exist_ok=True)
    for name in ENABLED:
        (wanted / f"{name}.service").symlink_to(f"/etc/systemd/system/{name}.service")
    (node / "etc/systemd/system/systemd-binfmt.service").symlink_to("/dev/null")
    with (node / "etc/systemd/journald.conf").open("a") as file:
        file.write("ReadKMsg=no\n")


def unpack(images_archive: Path, store: Path, scratch: Path) -> None:
    """Unpack images into the containerd store of a node, so that no node has to."""
    remove(store)
    store.mkdir(parents=True)
    scratch.mkdir()
    with containerd(store, scratch) as socket:
        ctr = (need("ctr"), "-a", socket, "-n", "k8s.io")
        run(*ctr, "images", "import", "--snapshotter", "overlayfs", images_archive)
        # Once a layer is unpacked its archive is not needed, and it is most of the store.
        blobs = store / "io.containerd.content.v1.content/blobs/sha256"
        for blob in large_files(blobs):
            run(*ctr, "content", "rm", f"sha256:{blob.name}")
        wait(lambda: not large_files(blobs), "containerd to remove a blob")
    remove(scratch)


def large_files(folder: Path) -> list[Path]:
    """Return the files above a megabyte."""
    return [each for each in folder.iterdir() if each.stat().st_size > LARGE]


@contextlib.contextmanager
def containerd(store: Path, scratch: Path) -> Iterator[Path]:
    """Run this machine's containerd on a store and give its socket."""
    socket, said = scratch / "containerd.sock", scratch / "containerd.log"
    others = ("snapshotter.v1.btrfs", "snapshotter.v1.aufs", "snapshotter.v1.zfs", "snapshotter.v1.devmapper")
    disabled = json.dumps([f"io.containerd.{each}" for each in ("grpc.v1.cri", *others)])
    config = scratch / "config.toml"
    config.write_text(
        f'version = 2\nroot = "{store}"\nstate = "{scratch / "state"}"\ndisabled_plugins = {disabled}\n'
        f'[grpc]\naddress = "{socket}"\n'
    )
    with (
        said.open("w") as log,
        subprocess.Popen(
            [need("containerd"), "--config", config], stdout=log, stderr=log, start_new_session=True
        ) as process,
    ):
        try:
            wait(lambda: answers(socket), "containerd to answer")
            yield socket
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def answers(socket: Path) -> bool:
    """Report whether a containerd answers."""
    done = subprocess.run([need("ctr"), "-a", socket, "version"], capture_output=True, check=False)
    return done.returncode == 0


def wait(condition: Callable[[], object], what: str, seconds: float = 30) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"dev/kind: waited {seconds:.0f} s in vain for {what}")
        time.sleep(0.1)


NODE = Part(
    "node",
    make,
    sources=[places.HERE / "kit/node.py", places.HERE / "node"],
    says=[places.KIND, SITE_PACKAGES],
    uses=[images.CONTROL_PLANE, programs.KUBERNETES, root.NODE, root.PAYLOAD],
)

REPOSITORY = "pytest-gpucluster/node"
IMAGE = f"{REPOSITORY}:{places.kubernetes_version()}-{NODE.key}"
"""What the image is called in the engine."""

SETTINGS = (
    "ENV container=docker",
    f"ENV {archive.PATH}",
    'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]',
)


def give_to_engine() -> None:
    """Import the node image into the engine, unless it has it."""
    docker = need("docker")
    if subprocess.run([docker, "image", "inspect", IMAGE], capture_output=True, check=False).returncode == 0:
        return
    folder = NODE.made() / "root"
    changes = [word for each in SETTINGS for word in ("--change", each)]
    with subprocess.Popen(["tar", "-C", folder, "--numeric-owner", "-c", "."], stdout=subprocess.PIPE) as tar:
        run(docker, "import", *changes, "-", IMAGE, stdin=tar.stdout)
    if tar.returncode:
        raise Failed(f"dev/kind: tar of {folder} ended with {tar.returncode}")


def forget_others() -> None:
    """Remove older node images from the engine; one that a cluster still uses stays."""
    docker = need("docker")
    for image in run(docker, "images", "--format", "{{.Repository}}:{{.Tag}}", REPOSITORY).split():
        if image != IMAGE:
            subprocess.run([docker, "image", "rm", image], capture_output=True, check=False)
