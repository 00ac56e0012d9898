"""Have a kind cluster: make it or find it by name, wait for it, put into it what the suite needs."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_gpucluster.profile import LoadedProfile
from pytest_gpucluster.provider import power
from pytest_gpucluster.provider.kind import claims, config, manager, removal
from pytest_gpucluster.provider.kind import engine as engines
from pytest_gpucluster.provider.protocol import (
    CLUSTER_FILE,
    PODS_RUN,
    REBOOT,
    Cluster,
    ProviderError,
    Started,
)

NAME = "kind"
READY_LIMIT = 300.0
"""Seconds for nodes to be Ready and for cluster DNS to serve, once `kind create` has ended."""


class KindProvider:
    """Makes a cluster for a run and removes it at its end, or uses one of a name that stays."""

    start_limit = 3600.0
    """There may be images to build or pull."""
    real = False

    def __init__(self, *, keep: bool = False) -> None:
        """Take whether the cluster of a run stays after it, to be looked at."""
        self._keep = keep

    def verify(self, loaded: LoadedProfile) -> None:
        """Check that kind, a container engine and pytest-kubernetes are there, and all files that are named.

        Raises:
            ProviderError: one line with what is missing; where nothing of kind is there it offers the embedded cluster.
        """
        manager.check()
        engines.check(engines.find())
        options = loaded.profile.kind
        config.read(options.config)
        for index, mount in enumerate(options.mounts):
            if not Path(mount.host).exists():
                raise ProviderError(f"kind.mounts.{index}.host: {mount.host} does not exist")

    def completed(self, loaded: LoadedProfile) -> LoadedProfile:
        """Return it as it is: all is known."""
        return loaded

    def kept(self, loaded: LoadedProfile, run_folder: Path, *, asked: bool) -> str:
        """Return the name of the cluster that stays, and how it is removed."""
        if not (run_folder / CLUSTER_FILE).exists():
            return ""
        name = loaded.profile.kind.name
        if name is not None:
            return f"the kind cluster {name}; remove it with: kind delete cluster --name {name}"
        text = f"the kind cluster of this run; remove it with: gpucluster cleanup {run_folder}"
        return text if asked else ""

    def undo(self, undo: Mapping[str, str]) -> str:
        """Remove the cluster of the run."""
        try:
            removal.remove(undo["name"])
        except ProviderError as error:
            return f"kind cluster {undo['name']}: {error}; gpucluster cleanup --cluster kind removes it"
        return ""

    def start(
        self, loaded: LoadedProfile, run_folder: Path, *, defects: Sequence[str], owner_pid: int
    ) -> tuple[Started, Sequence[Any]]:
        """Have the cluster.

        Raises:
            ProviderError: it cannot be had; what was begun is removed.
        """
        del defects
        engine = engines.find()
        engines.check(engine)
        removal.remove_orphans()
        begun = _Start(loaded, run_folder.absolute(), engine, owner_pid, keep=self._keep)
        with claims.locked(begun.name):
            return begun.run(), ()


class _Start:
    """One start."""

    def __init__(
        self, loaded: LoadedProfile, run_folder: Path, engine: engines.Engine, owner_pid: int, *, keep: bool
    ) -> None:
        self.profile = loaded.profile
        self.options = loaded.profile.kind
        self.folder = run_folder
        self.engine = engine
        self.owner_pid = owner_pid
        self.name = self.options.name or claims.new_name()
        # A name is how a later run finds the cluster again.
        self.kept = keep or self.options.name is not None
        self.kubeconfig = run_folder / "kubeconfig"
        self.log = run_folder / "logs" / "kind.log"

    def run(self) -> Started:
        from pytest_gpucluster.provider.kind import addons, payload

        # What may be wrong or missing is had before a cluster is made.
        image = payload.prepare(self.engine, self.options.payload, self.log)
        wanted = [addons.fetch(name, each.source, each.sha256) for name, each in self.profile.addons.items()]
        fresh = self.name not in self.engine.clusters()
        if fresh:
            self._claim()
        try:
            made = self._make(fresh=fresh)
            facts = _Filling(self, made).fill(image, wanted, fresh=fresh)
        except BaseException:
            if fresh:
                removal.remove_unlocked(self.name)
            raise
        roles = dict.fromkeys(("python", "torch"), image.image)
        cluster = Cluster(
            name=self.profile.name,
            provider=NAME,
            kubeconfig=str(self.kubeconfig),
            context=f"kind-{self.name}",
            features=frozenset({PODS_RUN, REBOOT}),
            facts={
                "kind": self.name,
                "engine": self.engine.program,
                "kept": self.kept,
                # A node of kind is a container of its name.
                **power.by_command(
                    self.engine.program, "restart", "{node}", environment=self.engine.environment
                ),
                **facts,
            },
            images={**roles, **self.profile.images},
        )
        undo = None if self.kept else {"provider": NAME, "name": self.name}
        return Started(cluster, undo=undo)

    @property
    def on_shared_disk(self) -> bool:
        """Report whether the profile keeps checkpoints on the class that a kind cluster has."""
        from pytest_gpucluster.provider.kind import shared_disk

        storage = self.profile.storage
        return storage is not None and (storage.durable.source, storage.durable.name) == (
            "storage_class",
            shared_disk.CLASS,
        )

    def _claim(self) -> None:
        claims.write(
            claims.new(
                self.name,
                self.folder.name,
                self.owner_pid,
                kept=self.kept,
                engine=self.engine.variables(),
            )
        )

    def _make(self, *, fresh: bool) -> Any:
        from pytest_gpucluster.provider.kind import devices, shared_disk

        path = self.folder / "kind.yaml"
        tree = devices.tree(self.name, self.engine) if fresh else None
        shared = shared_disk.make(self.name, self.engine) if fresh else None
        config.write(
            path,
            config.read(self.options.config),
            name=self.name,
            image=self.options.image,
            mounts=[(mount.host, mount.node) for mount in self.options.mounts],
            numa_tree=str(tree) if tree is not None else None,
            shared=str(shared) if shared is not None else None,
        )
        made = manager.manager(self.engine, path, self.kubeconfig, self.log)
        made.create()
        if not made._created:  # noqa: SLF001 (how the base class says that it found one)
            made.export()
        return made


@dataclasses.dataclass(frozen=True)
class _Filling:
    """Waits for a cluster and puts into it what the suite needs."""

    start: _Start
    made: Any

    def fill(self, image: Any, wanted: Sequence[Any], *, fresh: bool) -> Mapping[str, Any]:
        from pytest_gpucluster.kube import connection as connections
        from pytest_gpucluster.kube import errors, objects
        from pytest_gpucluster.provider.kind import addons, devices, shared_disk, waiting

        start = self.start
        connection = connections.Connection.open(start.kubeconfig, f"kind-{start.name}")
        api = objects.Objects(connection)
        try:
            waiting.nodes_ready(api, READY_LIMIT)
            found = api.list(objects.NODE)
            workers = _workers(found)
            self._payload(api, image, workers)
            without = {str(node["metadata"]["name"]) for node in found if devices.without(node)}
            count = start.profile.gpus_per_node
            gpus = {name: 0 if name in without else count for name in workers}
            having = [name for name in workers if name not in without]
            devices.install(api, image.image, having, start.profile.gpu_resource, count)
            shared_disk.install(api, start.name, fresh=fresh, asked=start.on_shared_disk)
            names = [str(node["metadata"]["name"]) for node in found]
            for addon in wanted:
                addons.install(api, addon, lambda archive: self.made.load_archive(archive, names))
            waiting.available(api, [("kube-system", "coredns")], READY_LIMIT)
        except errors.GpuClusterError as error:
            raise ProviderError(f"kind cluster {start.name}: {error}") from None
        finally:
            connection.close()
        return {
            "versions": {"kubernetes": str(found[0]["status"]["nodeInfo"]["kubeletVersion"])},
            "nodes": [{"name": name, "gpus": count} for name, count in gpus.items()],
            "server": connection.host,
            "payload": image.image,
            "addons": {addon.name: addon.digest for addon in wanted},
        }

    def _payload(self, api: Any, image: Any, workers: list[str]) -> None:
        from pytest_gpucluster.provider.kind import notes, payload

        key = f"payload.{image.image.replace('/', '_').replace(':', '_').replace('@', '_')}"
        if notes.read(api).get(key) == image.mark:
            return
        archive = payload.as_archive(self.start.engine, image, self.start.folder, self.start.log)
        try:
            self.made.load_archive(archive, workers)
        finally:
            if image.archive is None:
                archive.unlink(missing_ok=True)
        notes.write(api, **{key: image.mark})


def _workers(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the nodes that pods may be placed on: all but control planes, or all where there are no others."""
    names = [str(node["metadata"]["name"]) for node in nodes]
    free = [
        str(node["metadata"]["name"])
        for node in nodes
        if not any(
            "control-plane" in str(each.get("key")) for each in (node.get("spec") or {}).get("taints") or []
        )
    ]
    return sorted(free or names)
