"""A service account of the lane with the roles that a command prints, and nothing else."""

import contextlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import yaml

from tests.kind import lab

CODE = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"


@contextlib.contextmanager
def granted(kind_lab: lab.Lab, name: str, folder: pathlib.Path, *words: str) -> Iterator[pathlib.Path]:
    """Make an account of a name with what `gpucluster rbac` prints for the words; yield its kubeconfig."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, "rbac", *words, f"--name={name}", f"--service-account=default/{name}"],
        cwd=lab.ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    with kind_lab.having(*(each for each in yaml.safe_load_all(done.stdout) if each)):
        yield kubeconfig(kind_lab, name, folder)


def kubeconfig(kind_lab: lab.Lab, name: str, folder: pathlib.Path) -> pathlib.Path:
    """Write a kubeconfig of an account into a folder."""
    token = kind_lab.kubectl("create", "token", name, "--duration=1h").strip()
    config = yaml.safe_load(pathlib.Path(kind_lab.cluster.kubeconfig).read_text(encoding="utf-8"))
    (folder / f"token-{name}").write_text(token, encoding="utf-8")
    config["users"] = [{"name": name, "user": {"tokenFile": f"token-{name}"}}]
    config["contexts"] = [{"name": name, "context": {"cluster": config["clusters"][0]["name"], "user": name}}]
    path = folder / f"kubeconfig-{name}"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path
