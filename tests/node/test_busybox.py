"""The stand-in for the busybox image: nc as init containers use it, found by its name in the image."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pytest_gpucluster.node import images
from pytest_gpucluster.node.config import Image
from tests.node.harness import Nodes

FOLDERS = images.stand_ins()["busybox:*"]["path"]


def nc(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run nc as a container of the image does."""
    path = os.pathsep.join([*map(str, FOLDERS), os.environ["PATH"]])  # type: ignore[arg-type]
    return subprocess.run(
        ["sh", "-c", 'nc "$@"', "sh", *arguments],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_nc_tells_whether_a_port_answers():
    """0 where something listens, 1 and a line where nothing does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        assert nc("-z", "127.0.0.1", port).returncode == 0
    refused = nc("-z", "-w", "2", "127.0.0.1", port)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "refused" in refused.stderr
    assert nc("-z", "nosuch.invalid", port).returncode == 1


def test_the_image_is_found_by_any_tag_of_busybox():
    """The plugin's default image, and another tag."""
    table = {"busybox:*": Image(path=tuple(map(str, FOLDERS)))}  # type: ignore[call-overload]
    for name in ("busybox:1.36.1", "busybox:1.37"):
        assert images.resolve(table, name) is table["busybox:*"]
    assert images.resolve(table, "python") is None
    assert str(Path(sys.executable).parent) in table["busybox:*"].path


def test_a_container_of_the_image_waits_for_a_port(start: Callable[..., Nodes]) -> None:
    """In a pod too: refused by its own address, with the image's nc."""
    nodes = start(images={"test": [], **images.stand_ins()})
    script = "nc -z $(hostname) 29500 2>/dev/null || echo refused"
    assert nodes.output("asks", script, container={"image": "busybox:1.36.1"}) == "refused\n"
