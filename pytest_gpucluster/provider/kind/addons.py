"""Add-ons of a cluster (Kueue, Volcano): had from a file, a folder or a URL, checked by digest, applied, waited for."""

import dataclasses
import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.provider.kind import notes, waiting, webhooks
from pytest_gpucluster.provider.protocol import ProviderError

MANIFESTS = (".yaml", ".yml")
ARCHIVES = (".tar", ".tar.gz", ".tgz")
FETCH_LIMIT = 60.0
READY_LIMIT = 300.0
"""Seconds until everything of an add-on is Available; its images may have to be pulled."""
REACHED_LIMIT = 60.0
"""Seconds until the API server reaches webhooks whose Deployment is Available."""

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
"""Label and taint of kind's control plane."""

FIRST = ("Namespace", "CustomResourceDefinition")
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")

MADE = {"volcano": ("scheduling.volcano.sh/v1beta1", "Queue", "default")}
"""What an add-on makes itself once it serves: until then Volcano's admission refuses every Job."""

Obj = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Addon:
    """What is to be installed.

    Attributes:
        name: `kueue` or `volcano`.
        digest: SHA-256 of its source.
        manifests: objects in the order of their files.
        archives: image archives to load first.
    """

    name: str
    digest: str
    manifests: tuple[Obj, ...]
    archives: tuple[Path, ...] = ()


def fetch(name: str, source: str, sha256: str | None) -> Addon:
    """Have an add-on and check its digest.

    Raises:
        ProviderError: it cannot be had, has another digest, or holds no manifest; one line.
    """
    where = f"addons.{name}"
    path = Path(source).expanduser()
    archives: tuple[Path, ...] = ()
    if source.startswith(("http://", "https://")):
        texts = {source: _download(where, source, sha256)}
        found = hashlib.sha256(texts[source]).hexdigest()
    elif path.is_dir():
        files = sorted(each for each in path.iterdir() if each.name.endswith(MANIFESTS + ARCHIVES))
        archives = tuple(each for each in files if each.name.endswith(ARCHIVES))
        texts = {str(each): each.read_bytes() for each in files if each.name.endswith(MANIFESTS)}
        found = folder_digest(files)
    elif path.is_file():
        texts = {str(path): path.read_bytes()}
        found = hashlib.sha256(texts[str(path)]).hexdigest()
    else:
        raise ProviderError(f"{where}.source: {path} does not exist: give a file, a folder or an https URL")
    if sha256 is not None and sha256.lower() != found:
        raise ProviderError(f"{where}.sha256: {source} has the digest {found}, but {sha256} is declared")
    manifests = tuple(each for text in texts.items() for each in _objects(where, *text))
    if not manifests:
        raise ProviderError(f"{where}.source: {source} contains no Kubernetes objects (*.yaml)")
    return Addon(name, found, manifests, archives)


def folder_digest(files: Iterable[Path]) -> str:
    """Return the digest of a folder: that of the lines `sha256sum *` prints, sorted by name."""
    whole = hashlib.sha256()
    for path in sorted(files, key=lambda each: each.name):
        with path.open("rb") as file:
            whole.update(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n".encode())
    return whole.hexdigest()


def install(api: objects.Objects, addon: Addon, load: Callable[[Path], None]) -> None:
    """Install an add-on unless the very same is there, and wait until it serves.

    Args:
        api: the cluster.
        addon: what.
        load: loads an image archive into the nodes.

    Raises:
        ProviderError: an object is refused, or something is not Available in time; names it.
    """
    key = f"addon.{addon.name}"
    if notes.read(api).get(key) != addon.digest:
        for archive in addon.archives:
            load(archive)
        early = [each for each in addon.manifests if each["kind"] in FIRST]
        _apply(api, addon, early)
        waiting.established(api, _names(early, "CustomResourceDefinition"), READY_LIMIT)
        _apply(api, addon, [each for each in addon.manifests if each["kind"] not in FIRST])
        notes.write(api, **{key: addon.digest})
    serving(api, addon)


def serving(api: objects.Objects, addon: Addon) -> None:
    """Wait until an add-on that was applied serves.

    Raises:
        ProviderError: something is not Available in time; names it.
    """
    deployments = [
        (str(each["metadata"].get("namespace") or "default"), str(each["metadata"]["name"]))
        for each in addon.manifests
        if each["kind"] == "Deployment"
    ]
    try:
        waiting.available(api, deployments, READY_LIMIT)
        for kind in WEBHOOKS:
            waiting.trusted(api, kind, _names(addon.manifests, kind), READY_LIMIT)
        hooks = [each for each in addon.manifests if each["kind"] in WEBHOOKS]
        webhooks.answering(api, hooks, REACHED_LIMIT)
        if addon.name in MADE and any(each["kind"] == "Deployment" for each in addon.manifests):
            version, kind, name = MADE[addon.name]
            waiting.there(api, api.info(version, kind), name, READY_LIMIT)
    except ProviderError as error:
        raise ProviderError(f"addons.{addon.name}: {error}") from None


def _apply(api: objects.Objects, addon: Addon, manifests: Iterable[Obj]) -> None:
    for each in manifests:
        try:
            notes.apply(api, placeable(each))
        except errors.GpuClusterError as error:
            raise ProviderError(f"addons.{addon.name}: {error}") from None


def placeable(manifest: Obj) -> Obj:
    """Return a Job without the priority of system components, a Deployment that belongs to the control plane's node.

    With native gangs on (gate WorkloadWithJob, 1.37) the Job controller makes a PodGroup for every Job, and the API
    server refuses one of a priority above 1000000000, which `system-cluster-critical` has: the Job gets no pod, ever.
    Volcano makes the certificate of its admission with such a Job.

    A manager that lies on a worker is gone while that worker restarts (LIFE-011), and with it every creation that its
    webhook must see: on GPU clusters managers have nodes of their own. A Deployment that says where it belongs does.
    """
    if manifest.get("kind") == "Deployment":
        return _off_workers(manifest)
    if manifest.get("kind") != "Job":
        return manifest
    spec = manifest["spec"]
    pod = spec["template"]["spec"]
    if not str(pod.get("priorityClassName", "")).startswith("system-"):
        return manifest
    lower = {key: value for key, value in pod.items() if key != "priorityClassName"}
    return {**manifest, "spec": {**spec, "template": {**spec["template"], "spec": lower}}}


def _off_workers(manifest: Obj) -> Obj:
    spec = manifest.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec")
    if not pod or pod.get("nodeSelector") or pod.get("affinity"):
        return manifest
    tolerations = [*(pod.get("tolerations") or []), {"key": CONTROL_PLANE, "operator": "Exists"}]
    placed = {**pod, "nodeSelector": {CONTROL_PLANE: ""}, "tolerations": tolerations}
    return {**manifest, "spec": {**spec, "template": {**spec["template"], "spec": placed}}}


def _names(manifests: Iterable[Obj], kind: str) -> list[str]:
    return [str(each["metadata"]["name"]) for each in manifests if each["kind"] == kind]


def _objects(where: str, source: str, text: bytes) -> list[Obj]:
    try:
        documents = [each for each in yaml.safe_load_all(text) if each]
    except yaml.YAMLError as error:
        raise ProviderError(
            f"{where}.source: {source} is not valid YAML: {' '.join(str(error).split())}"
        ) from None
    found: list[Obj] = []
    for document in documents:
        listed = (
            document.get("items")
            if isinstance(document, Mapping) and document.get("kind") == "List"
            else None
        )
        for each in listed if listed is not None else [document]:
            if (
                not isinstance(each, dict)
                or not each.get("kind")
                or not (each.get("metadata") or {}).get("name")
            ):
                raise ProviderError(
                    f"{where}.source: {source} contains a document without kind or metadata.name"
                )
            found.append(each)
    return found


def _download(where: str, url: str, sha256: str | None) -> bytes:
    if sha256 is None:
        raise ProviderError(f"{where}.sha256: is missing; a source from a URL needs its digest")
    if not url.startswith("https://"):
        raise ProviderError(f"{where}.source: {url}: https only")
    try:
        with urllib.request.urlopen(url, timeout=FETCH_LIMIT) as answer:  # noqa: S310 (https, checked above)
            return bytes(answer.read())
    except (urllib.error.URLError, OSError) as error:
        raise ProviderError(f"{where}.source: {url} cannot be fetched: {error}") from None
