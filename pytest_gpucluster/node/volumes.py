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


CLAIMS = "persistentvolumeclaims"
SOURCES = frozenset({"csi", "nfs", "local", "iscsi", "fc", "cephfs", "rbd", "glusterfs", "azureFile"})
"""Sources of persistent volumes that are named in errors; only folders of the machine can be mounted here."""


def bound(claim: Object) -> bool:
    """Report whether a claim is bound to a volume: a pod waits for it until then."""
    return (claim.get("status") or {}).get("phase") == "Bound"


class UnboundClaimError(MissingObjectError):
    """A claim that is there, and not bound to a volume yet."""

    def __init__(self, name: str) -> None:
        """Keep which."""
        super().__init__(CLAIMS, name)
        self.args = (f'persistentvolumeclaim "{name}" is not bound',)


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
        claims_of: str = "",
    ) -> None:
        """Describe; `make` does the work.

        Args:
            pod: The pod.
            folder: Where its volumes are made, in memory.
            addresses: See `environment.field_value`.
            fetch: Returns a ConfigMap or Secret, None where absent.
            token: Returns a service account token for a projected source.
            claims_of: Name of a folder, of this node or of this pod, that stands for the volume of each claim; "" for
                the volume itself. Anything else is a defect.
        """
        self._pod = pod
        self._folder = folder
        self._addresses = addresses
        self._fetch = fetch
        self._token = token
        self._claims_of = claims_of
        self._hosts: dict[str, Path] = {}
        self._specs = {str(spec["name"]): spec for spec in pod["spec"].get("volumes") or []}

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
        if "hostPath" in spec:
            self._host_path(spec["hostPath"])
            self._hosts[name] = Path(spec["hostPath"]["path"])
            return
        if "emptyDir" in spec:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o777)
            return
        if "persistentVolumeClaim" in spec:
            await self._claimed(name, str(spec["persistentVolumeClaim"]["claimName"]))
            return
        if not self._sources(spec):
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

    async def _claimed(self, name: str, claim: str) -> None:
        """Find the folder of the volume that a claim is bound to."""
        found = await self._fetch(CLAIMS, claim)
        if found is None:
            raise MissingObjectError(CLAIMS, claim)
        if not bound(found):
            raise UnboundClaimError(claim)
        of_claim = str(found["spec"]["volumeName"])
        volume = await self._fetch("persistentvolumes", of_claim)
        if volume is None:
            raise VolumeError(name, f'persistentvolume "{of_claim}" not found')
        source = volume["spec"].get("hostPath")
        if source is None:
            kinds = ", ".join(sorted(set(volume["spec"]) & SOURCES)) or "unknown kind"
            raise VolumeError(name, f"these nodes have no persistent volumes of kind {kinds}")
        self._host_path(source)
        self._hosts[name] = Path(source["path"]) / self._claims_of
        if self._claims_of:
            self._hosts[name].mkdir(exist_ok=True)

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
            host = name in self._hosts
            source = self._hosts.get(name, self._folder / name)
            inner = mount.get("subPath") or expand(mount.get("subPathExpr") or "", variables)
            if inner:
                below = Path(os.path.normpath(source / inner))
                if not below.is_relative_to(source):
                    raise VolumeError(name, f"subPath {inner!r} leads out of the volume")
                if not below.exists():
                    below.mkdir(parents=True)
                source = below
            fixed = not host and not {"hostPath", "emptyDir"} & set(spec)
            claim = spec.get("persistentVolumeClaim") or {}
            closed = bool(mount.get("readOnly") or claim.get("readOnly"))
            found.append(Mount(mount["mountPath"], source, closed or fixed, host))
        return found
