"""A kind cluster that the tests of this folder share, and the suite on it as on any cluster that exists."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
import yaml

from pytest_gpucluster import profile
from pytest_gpucluster.profile import LoadedProfile
from pytest_gpucluster.provider import Cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = "gpucluster-tests"
"""Name of the cluster, so that a second run of these tests finds it; `GPUCLUSTER_KIND_NAME` names another."""
ADMIN = "/etc/kubernetes/admin.conf"


def loaded() -> LoadedProfile:
    """Return the profile of the cluster: the built-in one with what the environment says, as a run would have it."""
    given = []
    for key in ("image", "payload"):
        value = os.environ.get(f"GPUCLUSTER_KIND_{key.upper()}")
        given += [(("kind", key), value, "environment")] if value else []
    addons = pathlib.Path(os.environ.get("GPUCLUSTER_KIND_ADDONS", "/nonexistent"))
    for name in ("kueue", "volcano"):
        if (addons / name).is_dir():
            given.append((("addons", name, "source"), str(addons / name), "environment"))
    # What is planted is in Kubernetes itself, whoever else schedules gangs there.
    given += [(("scheduler",), "native", "test"), (("further_schedulers",), [], "test")]
    given.append((("kind", "name"), os.environ.get("GPUCLUSTER_KIND_NAME", NAME), "test"))
    return profile.load("kind", env=os.environ, given=given)


def until(what: str, holds: Callable[[], bool], limit: float = 120.0) -> None:
    """Wait for the cluster to be so.

    Raises:
        AssertionError: it is not, in time.
    """
    end = time.monotonic() + limit
    while not _holds(holds):
        assert time.monotonic() < end, f"{what} within {limit:.0f} s"
        time.sleep(0.5)


def _holds(holds: Callable[[], bool]) -> bool:
    """Report whether something holds; no while the API server does not answer."""
    try:
        return holds()
    except AssertionError:
        return False


@dataclasses.dataclass(frozen=True)
class Lab:
    """The cluster.

    Attributes:
        cluster: as the provider gave it.
        profile: what is declared of it, as plain data.
        engine: the container engine's program.
        folder: for what the tests write.
    """

    cluster: Cluster
    profile: Mapping[str, Any]
    engine: str
    folder: pathlib.Path

    @property
    def name(self) -> str:
        """Return the kind cluster's name."""
        return str(self.cluster.facts["kind"])

    @property
    def workers(self) -> list[str]:
        """Return the names of the nodes that pods are placed on."""
        return [str(node["name"]) for node in self.cluster.facts["nodes"]]

    @property
    def control_plane(self) -> str:
        """Return the name of the control plane's node."""
        return f"{self.name}-control-plane"

    def require(self, addons: Iterable[str]) -> None:
        """Skip the test where the cluster lacks an add-on."""
        missing = [name for name in addons if name not in self.cluster.facts["addons"]]
        if missing:
            pytest.skip(f"the cluster has no {', '.join(missing)}: give it with GPUCLUSTER_KIND_ADDONS")

    def ask_engine(self, *arguments: str, text: str | None = None) -> str:
        """Run the engine's program; return what it wrote."""
        done = subprocess.run(
            [self.engine, *arguments], input=text, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def inside(self, node: str, script: str) -> str:
        """Run a shell script in a node."""
        return self.ask_engine("exec", "-i", node, "sh", "-ec", script)

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run the kubectl of the control plane's node as administrator."""
        return self.ask_engine(
            "exec", "-i", self.control_plane, "kubectl", f"--kubeconfig={ADMIN}", *arguments, text=text
        )

    def get(self, *arguments: str) -> Any:
        """Return objects as plain data."""
        return json.loads(self.kubectl("get", "-o", "json", *arguments))

    def as_existing(
        self, name: str, changes: Mapping[str, Any] | None = None, **connection: str
    ) -> pathlib.Path:
        """Write the profile of the cluster as one that exists; return the folder that it lies in."""
        data = {
            key: value
            for key, value in self.profile.items()
            if key not in {"name", "provider", "kind", "addons"} and value is not None
        }
        data["connection"] = {
            "kubeconfig": self.cluster.kubeconfig,
            "context": self.cluster.context,
            **connection,
        }
        data["images"] = dict(self.cluster.images)
        for key, value in (changes or {}).items():
            merged = isinstance(value, Mapping) and isinstance(data.get(key), Mapping)
            data[key] = {**data[key], **value} if merged else value
        folder = self.folder / "profiles"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
        return folder

    def decide(
        self,
        name: str,
        rows: str,
        *,
        changes: Mapping[str, Any] | None = None,
        timeout: float = 600,
        **connection: str,
    ) -> dict[str, dict[str, Any]]:
        """Run rows on the cluster as one that exists; return their records by id."""
        reports = self.folder / "reports" / name
        command = [
            sys.executable, "-m", "pytest", "suites", "-q", "-p", "no:cacheprovider", "-p", "no:randomly",
            f"--cluster={name}", f"--gpucluster-profiles={self.as_existing(name, changes, **connection)}",
            f"--gpucluster-report-dir={reports}", "-k", rows,
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=ROOT, env=plain_env(), capture_output=True, text=True, timeout=timeout, check=False
        )
        sys.stdout.write(done.stdout + done.stderr)
        report = json.loads((reports / "latest" / "report.json").read_text(encoding="utf-8"))
        return {row["id"]: row for row in report["requirements"]}


def plain_env() -> dict[str, str]:
    """Return the environment without what names another cluster."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUCLUSTER_")}
    return {**kept, "PYTHONPATH": str(ROOT)}
