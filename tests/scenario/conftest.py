"""Fixtures: a profile, a stage on a fake clock and a recording API, an embedded control plane."""

import dataclasses
import pathlib
import types
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_gpucluster import profile as profiles
from pytest_gpucluster.kube import clock, errors, kinds, objects
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import log, site, stage
from pytest_gpucluster.workload import overlay

from . import kubelet

BUDGETS = dict.fromkeys(("admission", "enqueue", "bind", "start", "run", "finish", "delete", "torch"), 10.0)


def make_profile(**more: Any) -> profiles.Profile:
    """Return the embedded profile with short budgets, no Kueue and one scheduler, and what else a test declares."""
    plain = {"kueue": None, "further_schedulers": (), "budgets": BUDGETS, "versions": {}, "interface": "eth0"}
    return profiles.load("embedded").profile.model_copy(update={**plain, **more})


class StubApi(objects.Objects):
    """Answers at once and remembers what was asked."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self.asked: list[tuple[str, str, str]] = []
        self.answer: errors.GpuClusterError | None = None
        self.created: list[dict[str, Any]] = []

    def create(self, manifest, *, namespace=None, dry_run=False):
        """Return the object with a uid, or raise the planted answer."""
        self.asked.append(("create", manifest["kind"], manifest["metadata"]["name"]))
        if self.answer is not None:
            raise self.answer
        self.created.append(manifest)
        return {
            **manifest,
            "metadata": {**manifest["metadata"], "uid": f"uid-{manifest['metadata']['name']}"},
        }

    def delete(self, info, name, namespace=None, *, uid=None, grace=None, foreground=False):
        """Take the request."""
        self.asked.append(("delete", info.key, name))
        return {}

    def delete_collection(self, info, namespace=None, *, labels, grace=None):
        """Refuse: each object is deleted by itself."""
        raise errors.ApiError(405, "MethodNotAllowed", f"cannot delete {info.plural} by {labels}")

    def evict(self, pod, namespace, *, uid):
        """Take the request, or raise the planted answer."""
        self.asked.append(("evict", "Pod", pod))
        if self.answer is not None:
            raise self.answer
        return {}

    def info(self, api_version, kind):
        """Look into the table only."""
        return kinds.known(api_version, kind)

    def patch(self, info, name, change, namespace=None, *, how="merge", subresource=""):
        """Take the request."""
        self.asked.append(("patch", info.key, name))
        return {}

    def logs(self, pod, namespace, *, container="", previous=False, tail=None):
        """Return two lines."""
        self.asked.append(("log", "Pod", f"{pod}/{container}"))
        return "one\ntwo\n"


class Theatre:
    """A stage on a fake clock; the test says what the watches see."""

    def __init__(self, folder: pathlib.Path, *, real: bool = False, **profile: Any) -> None:
        """Set a stage called `play` at time 100."""
        self.clock: Any = clock.RealClock() if real else clock.FakeClock(100.0)
        self.log = log.SessionLog(folder / "session.jsonl", self.clock, scenario_label=names.LABEL_SCENARIO)
        self.api = StubApi()
        self.site = site.Site(
            make_profile(**profile),
            types.SimpleNamespace(name="c", kubeconfig="", context=None, features=frozenset()),
            self.api,
            self.log,
            self.clock,
            "ns",
            "run-1",
            "main",
            "2030-01-01T00:00:00Z",
            overlay.apply_overlay,
            lambda _: None,
        )
        self.stage = stage.Stage(self.site, "play", ("Pod",))

    def declare(self, **changed: Any) -> None:
        """Let the profile say something else."""
        self.site = dataclasses.replace(self.site, profile=self.site.profile.model_copy(update=changed))
        self.stage = stage.Stage(self.site, "play", ("Pod",))

    def see(
        self, change: str, kind: str, name: str, *, owner: str = "", namespace: str = "ns", **more: Any
    ) -> None:
        """Let a watch line arrive."""
        meta: dict[str, Any] = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            **more.pop("meta", {}),
        }
        if owner:
            meta["ownerReferences"] = [{"uid": owner}]
        self.log.line(change, kind, {"kind": kind, "metadata": meta, **more}, self.clock.monotonic())

    def later(self, seconds: float, *args: Any, **more: Any) -> None:
        """Plan a watch line."""
        self.clock.at(self.clock.monotonic() + seconds, lambda: self.see(*args, **more))

    def notes(self) -> list[dict[str, Any]]:
        """Return the notes so far."""
        import json

        lines = [json.loads(entry.text) for entry in self.log.entries() if entry.type == "NOTE"]
        return [{k: v for k, v in line.items() if k not in {"type", "scenario"}} for line in lines]


@pytest.fixture
def theatre(tmp_path: pathlib.Path) -> Iterator[Theatre]:
    """Set a stage on a fake clock."""
    made = Theatre(tmp_path)
    yield made
    made.log.close()


@pytest.fixture
def profile() -> profiles.Profile:
    """Return a profile for the embedded control plane."""
    return make_profile()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[types.SimpleNamespace]:
    """Run an embedded control plane with three pretended nodes."""
    with kubelet.cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
