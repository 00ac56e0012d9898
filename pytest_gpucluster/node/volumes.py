"""Volumes of a pod, made as folders once per pod, and their places in each container."""

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_gpucluster.node.environment import (
    Fetch,
    MissingKeyError,
    MissingObjectError,
    config_data,
    expand,
    field_value,
    resource_value,
)
from pytest_gpucluster.node.rootfs import Mount

Object = dict[str, Any]
Token = Callable[[Object], Awaitable[str]]


class VolumeError(Exception):
    """A volume that cannot be made.

    Attributes:
        missing: The object that it waits for, or None when waiting does not help.
    """

    def __init__(self, volume: str, cause: Exception | str) -> None:
        """Word the trouble as a kubelet does."""
        super().__init__(f'MountVolume.SetUp failed for volume "{volume}" : {cause}')
        self.missing = cause if isinstance(cause, MissingObjectError) else None


class Volumes:
    """The volumes of one pod."""

    def __init__(
        self,
        pod: Object,
        folder: Path,
        *,
        addresses: Mapping[str, str],
        fetch: Fetch,
        token: Token,
        apart: bool = False,
    ) -> None:
        """Describe; `make` does the work.

        Args:
            pod: The pod.
            folder: Where its volumes are made, in memory.
            addresses: See `environment.field_value`.
            fetch: Returns a ConfigMap or Secret, None where absent.
            token: Returns a service account token for a projected source.
            apart: Whether paths of the host are folders of this pod alone (a defect).
        """
        self._pod = pod
        self._folder = folder
        self._addresses = addresses
        self._fetch = fetch
        self._token = token
        self._specs = {str(spec["name"]): spec for spec in pod["spec"].get("volumes") or []}
        self._apart = apart

    async def make(self) -> None:
        """Make every volume that a container mounts.

        Raises:
            VolumeError: for the first one that cannot be made.
        """
        spec = self._pod["spec"]
        used = {
            mount["name"]
            for container in [*(spec.get("initContainers") or []), *spec["containers"]]
            for mount in container.get("volumeMounts") or []
        }
        for name in sorted(used):
            if name not in self._specs:
                raise VolumeError(name, "the pod has no such volume")
            try:
                await self._make(name, self._specs[name])
            except (MissingObjectError, MissingKeyError, OSError) as error:
                raise VolumeError(name, error) from error

    async def _make(self, name: str, spec: Object) -> None:
        folder = self._folder / name
        if "hostPath" in spec and not self._apart:
            self._host_path(spec["hostPath"])
            return
        if "emptyDir" in spec or "hostPath" in spec:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o777)
            return
        if "persistentVolumeClaim" in spec or not self._sources(spec):
            kinds = ", ".join(sorted(set(spec) - {"name"})) or "nothing"
            raise VolumeError(name, f"these nodes have no volumes of kind {kinds}")
        content: dict[str, tuple[bytes, int]] = {}
        for source in self._sources(spec):
            content |= await self._content(source)
        folder.mkdir(parents=True, exist_ok=True)
        for path, (data, mode) in content.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            target.chmod(mode)

    @staticmethod
    def _sources(spec: Object) -> list[Object]:
        if "projected" in spec:
            mode = spec["projected"].get("defaultMode", 0o644)
            return [
                {kind: {"defaultMode": mode, **(value or {})}}
                for source in spec["projected"].get("sources") or []
                for kind, value in source.items()
            ]
        return [{kind: spec[kind] or {}} for kind in ("configMap", "secret", "downwardAPI") if kind in spec]

    async def _content(self, source: Object) -> dict[str, tuple[bytes, int]]:
        (kind, value), *_ = source.items()
        mode = int(value.get("defaultMode") or 0o644)
        match kind:
            case "configMap" | "secret":
                resource = "configmaps" if kind == "configMap" else "secrets"
                name = value.get("secretName") or value.get("name") or ""
                return await self._keys(resource, name, value, mode)
            case "downwardAPI":
                return {
                    item["path"]: (self._downward(item).encode(), int(item.get("mode") or mode))
                    for item in value.get("items") or []
                }
            case "serviceAccountToken":
                return {value.get("path", "token"): ((await self._token(value)).encode(), mode)}
        raise MissingKeyError(f"unsupported volume source {kind}")

    async def _keys(self, resource: str, name: str, value: Object, mode: int) -> dict[str, tuple[bytes, int]]:
        item = await self._fetch(resource, name)
        if item is None:
            if value.get("optional"):
                return {}
            raise MissingObjectError(resource, name)
        data = config_data(item)
        if not value.get("items"):
            return {key: (content, mode) for key, content in data.items()}
        chosen: dict[str, tuple[bytes, int]] = {}
        for entry in value["items"]:
            if entry["key"] in data:
                chosen[entry["path"]] = (data[entry["key"]], int(entry.get("mode") or mode))
            elif not value.get("optional"):
                raise MissingKeyError(
                    f"references non-existent {resource.removesuffix('s')} key: {entry['key']}"
                )
        return chosen

    def _downward(self, item: Object) -> str:
        if "fieldRef" in item:
            return field_value(item["fieldRef"]["fieldPath"], self._pod, self._addresses)
        return resource_value(item["resourceFieldRef"], self._pod, {})

    @staticmethod
    def _host_path(spec: Object) -> None:
        path = Path(spec["path"])
        if spec.get("type") == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        elif not path.exists():
            raise OSError(f"hostPath type check failed: {path} does not exist")

    def mounts(self, container: Object, variables: Mapping[str, str]) -> list[Mount]:
        """Return the places of volumes in one container.

        Args:
            container: Its spec.
            variables: Its environment, for `subPathExpr`.

        Raises:
            VolumeError: when a subPath leads out of its volume.
        """
        found = []
        for mount in container.get("volumeMounts") or []:
            name = mount["name"]
            spec = self._specs[name]
            host = "hostPath" in spec and not self._apart
            source = Path(spec["hostPath"]["path"]) if host else self._folder / name
            inner = mount.get("subPath") or expand(mount.get("subPathExpr") or "", variables)
            if inner:
                below = Path(os.path.normpath(source / inner))
                if not below.is_relative_to(source):
                    raise VolumeError(name, f"subPath {inner!r} leads out of the volume")
                if not below.exists():
                    below.mkdir(parents=True)
                source = below
            fixed = not {"hostPath", "emptyDir"} & set(spec)
            found.append(Mount(mount["mountPath"], source, bool(mount.get("readOnly")) or fixed, host))
        return found
