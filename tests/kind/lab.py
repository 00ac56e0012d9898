"""A kind cluster that the tests of this folder share, and the suite on it as on any cluster that exists."""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
import yaml

from pytest_gpucluster import profile
from pytest_gpucluster.kube import connection, errors, kinds, objects
from pytest_gpucluster.profile import LoadedProfile
from pytest_gpucluster.provider import Cluster
from tests.inner import QUIET, path

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPORTS = ROOT / "reports" / "kind"
"""What the last run of these tests wrote, one folder a worker: where the cause of a red one is read."""
NAME = "gpucluster-tests"
"""Name of the cluster, so that a second run of these tests finds it; `GPUCLUSTER_KIND_NAME` names another."""
ADMIN = "/etc/kubernetes/admin.conf"


def name(worker: str) -> str:
    """Return the name of the cluster of a worker of xdist: each has its own, so that faults of two do not meet."""
    first = os.environ.get("GPUCLUSTER_KIND_NAME") or NAME
    return first if worker in {"master", "gw0"} else f"{first}-{worker}"


def loaded(worker: str) -> LoadedProfile:
    """Return the profile of the cluster: the built-in one with what the environment says, as a run would have it."""
    given = []
    for key in ("image", "payload"):
        value = os.environ.get(f"GPUCLUSTER_KIND_{key.upper()}")
        given += [(("kind", key), value, "environment")] if value else []
    addons = pathlib.Path(os.environ.get("GPUCLUSTER_KIND_ADDONS", "/nonexistent"))
    for each in ("kueue", "volcano"):
        if (addons / each).is_dir():
            given.append((("addons", each, "source"), str(addons / each), "environment"))
    # What is planted is in Kubernetes itself, whoever else schedules gangs there.
    given += [(("scheduler",), "native", "test"), (("further_schedulers",), [], "test")]
    given.append((("kind", "name"), name(worker), "test"))
    return profile.load("kind", env=os.environ, given=given)


def until(what: str, holds: Callable[[], bool], limit: float = 120.0) -> None:
    """Wait for the cluster to be so.

    Raises:
        AssertionError: it is not, in time.
    """
    end = time.monotonic() + limit
    while not _holds(holds):
        assert time.monotonic() < end, f"{what} within {limit:.0f} s"
        time.sleep(0.25)


def _holds(holds: Callable[[], bool]) -> bool:
    """Report whether something holds; no while the API server does not answer, or has not got what is asked for."""
    try:
        return holds()
    except (AssertionError, errors.ApiError, errors.Unreachable):
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
        """Return the names of the nodes with GPUs."""
        return [str(node["name"]) for node in self.cluster.facts["nodes"] if node["gpus"]]

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

    def kubectl(self, *arguments: str) -> str:
        """Run the kubectl of the control plane's node as administrator."""
        return self.ask_engine(
            "exec", "-i", self.control_plane, "kubectl", f"--kubeconfig={ADMIN}", *arguments
        )

    @functools.cached_property
    def api(self) -> objects.Objects:
        """Return the API server, asked as administrator; starting kubectl in a node for each question costs a core."""
        return objects.Objects(connection.Connection.open(self.cluster.kubeconfig, self.cluster.context))

    def kind(self, key: str) -> kinds.KindInfo:
        """Return where a kind of the driver's table lives."""
        return self.api.info_of_key(key)

    def get(self, key: str, name: str, namespace: str | None = None) -> Any:
        """Return an object as plain data."""
        return self.api.get(self.kind(key), name, namespace)

    def list(self, key: str, namespace: str | None = None, labels: str = "") -> Any:
        """Return objects as plain data."""
        return self.api.list(self.kind(key), namespace, labels=labels)

    def patch(self, key: str, name: str, change: object, namespace: str | None = None, **how: Any) -> None:
        """Change an object."""
        self.api.patch(self.kind(key), name, change, namespace, **how)

    @contextlib.contextmanager
    def having(self, *manifests: dict[str, Any]) -> Iterator[None]:
        """Create objects, and delete them again, the last one first, until they are gone."""
        try:
            for each in manifests:
                self.api.create(each)
            yield
        finally:
            for each in reversed(manifests):
                self._delete(each)

    def _delete(self, manifest: Mapping[str, Any]) -> None:
        info = self.api.info(manifest["apiVersion"], manifest["kind"])
        about = manifest["metadata"]
        where = (about["name"], about.get("namespace"))
        self.api.delete(info, *where)

        def gone() -> bool:
            try:
                self.api.get(info, *where)
            except errors.ApiError as error:
                return error.code == 404
            return False

        until(f"{manifest['kind']} {about['name']} is gone", gone)

    def as_existing(
        self, name: str, changes: Mapping[str, Any] | None = None, **connection: str
    ) -> pathlib.Path:
        """Write the profile of the cluster as one that exists; return the folder that it lies in."""
        data = {
            key: value
            for key, value in self.profile.items()
            if key not in {"name", "provider", "kind", "addons", "host"} and value is not None
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
            sys.executable, "-m", "pytest", "suites", "-q", *QUIET,
            f"--cluster={name}", f"--gpucluster-profiles={self.as_existing(name, changes, **connection)}",
            f"--gpucluster-report-dir={reports}", "-k", rows,
        ]  # fmt: skip
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=plain_environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        sys.stdout.write(done.stdout + done.stderr)
        report = json.loads((reports / "latest" / "report.json").read_text(encoding="utf-8"))
        return {row["id"]: row for row in report["requirements"]}


def plain_environment() -> dict[str, str]:
    """Return the environment without what names another cluster, and without a worker that runs these tests."""
    others = ("GPUCLUSTER_", "PYTEST_XDIST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return {**kept, "PYTHONPATH": path(ROOT)}
