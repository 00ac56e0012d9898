"""Environment and command line of a container, expanded as Kubernetes expands them."""

import base64
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any

from pytest_gpucluster.plain.quantities import parse_quantity

Object = dict[str, Any]
Fetch = Callable[[str, str], Awaitable[Object | None]]

_REFERENCE = re.compile(r"\$(\$|\([^)]*\))?")
_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['(.+)'\]$")


class MissingKeyError(Exception):
    """A ConfigMap or Secret that is there but lacks a key that is not optional."""


class MissingObjectError(Exception):
    """A ConfigMap or Secret that is not there and is not optional.

    Attributes:
        resource: `configmaps` or `secrets`.
        name: Its name.
    """

    def __init__(self, resource: str, name: str) -> None:
        """Keep what is missing, in the words of a kubelet."""
        super().__init__(f'{resource.removesuffix("s")} "{name}" not found')
        self.resource = resource
        self.name = name


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)`; `$$` stands for one dollar sign; what is not known stays as it is."""

    def replace(match: re.Match[str]) -> str:
        tail = match.group(1)
        if tail is None:
            return "$"
        if tail == "$":
            return "$"
        return variables.get(tail[1:-1], match.group(0))

    return _REFERENCE.sub(replace, text)


def expand_all(words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """Expand each word of a command line."""
    return [expand(word, variables) for word in words]


def field_value(path: str, pod: Object, addresses: Mapping[str, str]) -> str:
    """Return what a `fieldRef` points at.

    Args:
        path: For instance `metadata.name` or `metadata.labels['app']`.
        pod: The pod.
        addresses: `status.podIP`, `status.hostIP` and their plurals, which the node itself knows first.

    Raises:
        MissingKeyError: when the path is not one that a kubelet supports.
    """
    if path in addresses:
        return addresses[path]
    meta = pod["metadata"]
    subscript = _SUBSCRIPT.match(path)
    if subscript:
        return str((meta.get(subscript.group(1)) or {}).get(subscript.group(2), ""))
    if path in ("metadata.labels", "metadata.annotations"):
        entries = meta.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f'{key}="{_quoted(value)}"' for key, value in sorted(entries.items()))
    if path in ("metadata.name", "metadata.namespace", "metadata.uid"):
        return str(meta.get(path.removeprefix("metadata."), ""))
    if path in ("spec.nodeName", "spec.serviceAccountName"):
        return str(pod["spec"].get(path.removeprefix("spec."), ""))
    raise MissingKeyError(f"unsupported fieldPath: {path}")


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_value(reference: Object, pod: Object, own: Object) -> str:
    """Return what a `resourceFieldRef` points at, rounded up to a whole multiple of its divisor."""
    name = reference.get("containerName")
    container = next((c for c in pod["spec"]["containers"] if c["name"] == name), own)
    section, _, resource = str(reference["resource"]).partition(".")
    resources = container.get("resources") or {}
    amount = (resources.get(section) or {}).get(resource, (resources.get("limits") or {}).get(resource, "0"))
    divisor = parse_quantity(reference.get("divisor") or "1") or Fraction(1)
    return str(ceil(parse_quantity(amount) / divisor))


def config_data(item: Object) -> dict[str, bytes]:
    """Return the entries of a ConfigMap or Secret as bytes."""
    if item.get("kind") == "Secret" or "type" in item:
        found = {key: base64.b64decode(value) for key, value in (item.get("data") or {}).items()}
        found |= {key: value.encode() for key, value in (item.get("stringData") or {}).items()}
        return found
    found = {key: value.encode() for key, value in (item.get("data") or {}).items()}
    found |= {key: base64.b64decode(value) for key, value in (item.get("binaryData") or {}).items()}
    return found


async def build(
    container: Object,
    pod: Object,
    addresses: Mapping[str, str],
    fetch: Fetch,
    base: Mapping[str, str],
) -> dict[str, str]:
    """Return the environment of a container; later entries win, `envFrom` comes first.

    Args:
        container: Its spec.
        pod: The pod it belongs to.
        addresses: See `field_value`.
        fetch: Returns a ConfigMap or Secret by (`configmaps` or `secrets`, name), None where absent.
        base: What image and node set before the pod has its say.

    Raises:
        MissingObjectError: when a ConfigMap or Secret is absent and not optional.
        MissingKeyError: when it lacks the key.
    """
    variables = dict(base)
    for source in container.get("envFrom") or []:
        variables |= await _from_source(source, fetch)
    for entry in container.get("env") or []:
        if "valueFrom" not in entry or entry["valueFrom"] is None:
            variables[entry["name"]] = expand(entry.get("value") or "", variables)
            continue
        value = await _from_value(entry["valueFrom"], container, pod, addresses, fetch)
        if value is not None:
            variables[entry["name"]] = value
    return variables


async def _from_source(source: Object, fetch: Fetch) -> dict[str, str]:
    for field, resource in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
        reference = source.get(field)
        if reference:
            item = await fetch(resource, reference["name"])
            if item is None:
                if reference.get("optional"):
                    return {}
                raise MissingObjectError(resource, reference["name"])
            prefix = source.get("prefix") or ""
            return {prefix + key: value.decode() for key, value in config_data(item).items()}
    return {}


async def _from_value(
    source: Object, container: Object, pod: Object, addresses: Mapping[str, str], fetch: Fetch
) -> str | None:
    if source.get("fieldRef"):
        return field_value(source["fieldRef"]["fieldPath"], pod, addresses)
    if source.get("resourceFieldRef"):
        return resource_value(source["resourceFieldRef"], pod, container)
    for field, resource in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        reference = source.get(field)
        if not reference:
            continue
        item = await fetch(resource, reference["name"])
        if item is None:
            if reference.get("optional"):
                return None
            raise MissingObjectError(resource, reference["name"])
        value = config_data(item).get(reference["key"])
        if value is not None:
            return value.decode()
        if reference.get("optional"):
            return None
        kind = "ConfigMap" if resource == "configmaps" else "Secret"
        namespace = pod["metadata"].get("namespace", "default")
        raise MissingKeyError(
            f"couldn't find key {reference['key']} in {kind} {namespace}/{reference['name']}"
        )
    raise MissingKeyError(f"unsupported valueFrom: {', '.join(sorted(source))}")
