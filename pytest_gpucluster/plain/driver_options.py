"""What an object hands to a driver, a plugin or an engine as it is: volumes, mounts, job plugins, classes, Ray, Spark.

Kubernetes does not know what these options mean, so a password among them looks like any other. Those that judges and
people read are written; others are withheld.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_gpucluster.plain import arguments, secret_names, withheld

MAPS = frozenset(
    {
        "volumeAttributes", "parameters", "attachmentMetadata", "publishContext", "rayStartParams", "sparkConf",
        "hadoopConf", "mutableParameters",
    }
)  # fmt: skip
"""Keys under which a driver's or an engine's options stand by name."""
LISTS = frozenset({"mountOptions"})
"""Keys of lists of such options."""
TEXTS = frozenset({"runtimeEnvYAML", "entrypoint"})
"""Keys of texts of an engine: what its processes run, and in which environment."""
OWNERS = frozenset({"flexVolume"})
"""Keys of objects whose `options` go to a driver."""

_REFERENCE = frozenset({"apiGroup", "apiVersion", "kind", "name", "namespace", "scope"})
"""Keys of `parameters` that are the reference to another object, as those of an AdmissionCheck."""
_READ = re.compile(
    r"csi\.storage\.k8s\.io/(?:fstype|ephemeral|pod\.name|pod\.namespace|pod\.uid|serviceAccount\.name|pv/name|pvc/name|"
    r"pvc/namespace)|storage\.kubernetes\.io/csiProvisionerIdentity|num-gpus|num-cpus|port|block|dashboard-host|metrics-export-port"
)
"""Options that Kubernetes itself writes, and how many devices an engine was told."""
_PLUGIN = re.compile(
    r"--?(?:master|worker|port|publish-not-ready-addresses|disable-network-policy|no-root|ssh-key-file-path|"
    r"wait-master-[a-z-]+|rank-start|role|controller|clusterport|head|headContainer|workerContainer|dashboardPort|clientPort)"
)
"""Options of the plugins of a Volcano Job."""
_PLAIN = re.compile(r"[A-Za-z0-9._/-]{1,63}")
_AMOUNT = re.compile(r"-?\d{1,9}|true|false")
_MOUNT = re.compile(
    r"[a-z_]{1,20}|[a-z_]{1,20}=\d{1,12}(?:\.\d{1,3})?|(?:proto|sec|local_lock)=[a-z0-9]{1,8}"
)
"""Options of a mount that are switches, amounts, or ways to speak with a server."""
_COMMA = re.compile(r",(?![^<>]*>)")
"""Between two options of a mount; there is one in what stands in place of a value, too."""


def by_name(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a driver's options by name; values that nobody reads are withheld, the references to objects are not."""
    if _REFERENCE.issuperset(map(str, options)):
        return options
    return {name: _value(str(name), value) for name, value in options.items()}


def of_plugin(words: Sequence[Any]) -> list[Any]:
    """Return the arguments of one plugin of a job."""
    return [_argument(word) if isinstance(word, str) else word for word in words]


def of_mount(words: Sequence[Any]) -> list[Any]:
    """Return the options of a mount."""
    return [
        ",".join(one if _MOUNT.fullmatch(one) else _named(one) for one in _COMMA.split(word))
        if isinstance(word, str)
        else word
        for word in words
    ]  # fmt: skip


def of_engine(key: str, text: str) -> str:
    """Return what an engine runs, or the environment of its processes."""
    return arguments.kept([text])[0] if key == "entrypoint" else withheld.of(text)  # type: ignore[return-value]


def _value(name: str, value: Any) -> Any:
    """Return one option; what is nested is withheld leaf by leaf."""
    if isinstance(value, Mapping):
        return {inner: _value(str(inner), one) for inner, one in value.items()}
    if isinstance(value, list):
        return [_value(name, one) for one in value]
    if isinstance(value, bool | int | float) or value in (None, "", "true", "false"):
        return value
    read = _READ.fullmatch(name) is not None and not secret_names.looks_secret(name)
    return value if read else withheld.of(str(value))


def _argument(word: str) -> str:
    name, equals, value = word.partition("=")
    known = _PLUGIN.fullmatch(name) is not None
    if not equals:
        return word if known or not word else withheld.of(word)
    if name.startswith("-") and (
        not value or (known and _PLAIN.fullmatch(value)) or _AMOUNT.fullmatch(value)
    ):
        return word
    return _named(word) if name.startswith("-") else withheld.of(word)


def _named(word: str) -> str:
    """Return a name, and in place of what it is set to its length and a digest."""
    name, equals, value = word.partition("=")
    return (
        f"{name}={withheld.of(value)}"
        if equals and re.fullmatch(r"[\w.-]{1,60}", name)
        else withheld.of(word)
    )
