"""The profile of the cluster, as its operator would declare it, and the user with whom the suite runs."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from . import addons, certificates, images, places
from .failure import Failed
from .settings import Settings

NAME = "prod-a"
ACCOUNT = "conformance"
NAMESPACE = "default"
HOURS = "12h"
NEEDED = ("torch",)
"""Packages of Python that pods need, wherever they lie."""
STARTER = "torchrun"

Obj = dict[str, Any]


def profile(settings: Settings, added: Obj) -> Obj:
    """Return the profile.

    Args:
        settings: of the cluster.
        added: what the operator declares beside that, such as `fabric`.
    """
    gpus = settings.fake_gpus if settings.devices == "fake" else len(settings.nodes[0].gpus)
    mounts = addons.mounts(packages())
    variables = [each.partition("=") for each in images.NO_MULTICAST]
    env = [{"name": name, "value": value} for name, _, value in variables]
    return {
        "connection": {"kubeconfig": str(places.kubeconfig(NAME)), "context": NAME},
        "scheduler": "native",
        "queue": "default",
        "kueue": {},
        "gpu_resource": addons.RESOURCE,
        "gpus_per_node": gpus,
        "overlay": {
            "spec": {
                "volumes": mounts["volumes"],
                # Without a name: laid onto every container.
                "containers": [{"env": env, "volumeMounts": mounts["volumeMounts"]}],
            }
        },
        "images": dict.fromkeys(("python", "torch"), images.MACHINE),
        **added,
    }


def packages() -> list[str]:
    """Return the folders of packages that pods need and that are in none of the machine's own."""
    if shutil.which(STARTER, path=images.search()) is None:
        raise Failed(f"no program {STARTER} in {images.search()}: with it pods start the ranks of torch")
    found = []
    for name in NEEDED:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise Failed(f"{sys.executable} has no package {name}, which pods take from this machine")
        folder = os.path.realpath(Path(spec.origin).parents[1])
        if not any(folder.startswith(f"{each}/") for each in images.mounted()):
            found.append(folder)
    return found


def file() -> Path:
    """Return where the profile of the cluster lies once it is declared."""
    return places.STATE / "clusters" / f"{NAME}.yaml"


def read() -> Obj:
    """Return the profile of the cluster.

    Raises:
        Failed: it was not declared.
    """
    if not file().is_file():
        raise Failed(f"no profile {file()}: `declare` writes it")
    return dict(yaml.safe_load(file().read_text(encoding="utf-8")))


def write(settings: Settings, added: list[Path]) -> Path:
    """Write the profile into the folder of profiles; return that folder."""
    sections: Obj = {}
    for path in added:
        try:
            sections |= yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except (OSError, yaml.YAMLError, TypeError) as error:
            raise Failed(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    file().parent.mkdir(exist_ok=True)
    file().write_text(yaml.safe_dump(profile(settings, sections), sort_keys=False), encoding="utf-8")
    return file().parent


def grant(folder: Path, marks: str) -> None:
    """Make the user who may do what `gpucluster rbac` prints for a selection; write its kubeconfig."""
    code = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"
    command = [
        sys.executable, "-c", code, "rbac", f"--cluster={NAME}", f"--profiles={folder}",
        f"--service-account={NAMESPACE}/{ACCOUNT}", *(["-m", marks] if marks else []),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed((done.stderr or done.stdout).strip().splitlines()[-1])
    addons.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", text=done.stdout)
    token = addons.kubectl(
        "create", "token", ACCOUNT, f"--namespace={NAMESPACE}", f"--duration={HOURS}"
    ).strip()
    config = json.loads(places.kubeconfig("admin").read_text())
    config["users"] = [{"name": ACCOUNT, "user": {"token": token}}]
    config["contexts"] = [{"name": NAME, "context": {"cluster": certificates.CONTEXT, "user": ACCOUNT}}]
    config["current-context"] = NAME
    path = places.kubeconfig(NAME)
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1), encoding="ascii")
