"""Take secrets out of what is about to be written or printed: records, evidence, logs, failure texts.

Three ways, each in files of its own: by place (`withheld`, `arguments`, `driver_options`: variables, arguments,
annotations, data of ConfigMaps and options of drivers that nobody reads are not written at all), by name
(`secret_names`, `secret_texts`: what a name that holds a secret is set to), by look (`secret_shapes`). Values that are
known, such as the token in use, are given to `Redactor`.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_gpucluster.plain import arguments, driver_options, names, secret_texts, visible, withheld
from pytest_gpucluster.plain.secret_names import looks_secret
from pytest_gpucluster.plain.secret_shapes import REDACTED

__all__ = ["REDACTED", "Redactor", "clean", "leaf", "looks_secret", "shown"]

FREE = frozenset(
    {
        "message", "note", "line", "log", "text", "error", "stderr", "stdout", "output", "msg", "trace", "why", "body",
        "failure_text", "observed", "description", "details",
    }
)  # fmt: skip
"""Keys under which somebody wrote sentences, or a program its output: words made by chance do not belong there."""

_OWN = "GPUCLUSTER_CONTAINER"
"""Variable of each container of ours: its command is ours too."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MADE = frozenset(
    {
        "uid", "resourceVersion", "creationTimestamp", "providerID", "machineID", "systemUUID", "bootID", "containerID",
        "imageID",
    }
)  # fmt: skip
"""Keys whose values servers and machines make; nobody can put a secret there."""
_ENVIRONMENTS = frozenset({"env", "environment", "envVars"})
_HELD = frozenset({"data", "stringData", "binaryData"})


@dataclasses.dataclass(frozen=True)
class Redactor:
    """Redacts by place, by name and by look, and the values it was told.

    Attributes:
        known: secret values in use, such as the bearer token of the connection; short ones are ignored,
            since replacing them would destroy unrelated text.
        said: all of it is what a program said, whatever the keys are.
    """

    known: tuple[str, ...] = ()
    said: bool = False

    def clean(self, value: Any) -> Any:
        """Return plain data without secrets; where there is none, the value itself and not a copy."""
        if isinstance(value, str):
            return self.text(value)
        try:
            return self._inner("", value)
        except RecursionError:
            return self._inner("", _cut(value, _DEEPEST))

    def text(self, text: str) -> str:
        """Return what somebody wrote or a program said without the secrets in it."""
        text = self._without_known(text)
        data = _data(text)
        if data is None:
            return secret_texts.free(text)
        made = dataclasses.replace(self, said=True)._inner("", data)  # noqa: SLF001 - of the same class
        return text if made is data else json.dumps(made, ensure_ascii=False)

    # -- plain data --------------------------------------------------------------------------------------------------

    def _inner(self, key: str, value: Any) -> Any:
        """Return the value that stands under a key."""
        kind = type(value)
        if kind is str:
            return self._string(key, value)
        if kind is dict or isinstance(value, Mapping):
            return self._mapping(key, value)
        if kind is list or (isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | str)):
            return self._sequence(key, value)
        return value

    def _string(self, key: str, value: str) -> str:
        if not value or key in _MADE:
            return value
        if looks_secret(key) or key == _LAST_APPLIED:
            return value if secret_texts.is_replaced(value) else REDACTED
        new = self._without_known(value) if self.known else value
        new = self.text(new) if self.said or key in FREE else secret_texts.plain(new)
        return value if new == value else new  # an equal text may be another object

    def _mapping(self, key: str, value: Mapping[Any, Any]) -> Mapping[Any, Any]:
        kind = value.get("kind")
        if kind in ("SecretList", "ConfigMapList"):
            value = _with_kinds(value, kind.removesuffix("List"))
        changed: dict[Any, Any] | None = None
        for name, item in value.items():
            known = name if type(name) is str else str(name)
            new = self._placed(key, known, item, value) if known in _PLACES else None
            if new is None:
                new = self._inner(known, item)
            if new is not item:
                changed = dict(value) if changed is None else changed
                changed[name] = new
        named = value.get("name")
        if type(named) is str and type(value.get("value")) is str and looks_secret(named):
            changed = dict(value) if changed is None else changed
            changed["value"] = withheld.of(value["value"])
        return value if changed is None else changed

    def _placed(self, above: str, key: str, item: Any, owner: Mapping[Any, Any]) -> Any:
        """Return what stands in a place from which only what is read is kept; None where this is no such place."""
        if key in _ENVIRONMENTS:
            return self._environment(item)
        if key == "httpHeaders" and isinstance(item, list):
            return [
                {**one, "value": withheld.of(str(one["value"]))} if _is_pair(one) else one for one in item
            ]
        if key == "annotations" and isinstance(item, Mapping):
            return _same(item, {k: self._annotation(str(k), v) for k, v in item.items()})
        if key in ("command", "args"):
            return self._command(above, item, owner)
        if key in _HELD and isinstance(item, Mapping):
            if owner.get("kind") == "Secret":
                held = {k: v if secret_texts.is_replaced(str(v)) else REDACTED for k, v in item.items()}
                return _same(item, held)
            if owner.get("kind") == "ConfigMap":
                return _same(item, self._entries(item, owner))
        return self._options(above, key, item)

    def _options(self, above: str, key: str, item: Any) -> Any:
        """Return what goes to a driver, a plugin or an engine as it is; None where this is no such place."""
        if isinstance(item, Mapping):
            if key in driver_options.MAPS or (key == "options" and above in driver_options.OWNERS):
                return _same(item, dict(driver_options.by_name(item)))
            if key == "plugins":
                made = {
                    k: driver_options.of_plugin(v) if isinstance(v, list) else self._inner("", v)
                    for k, v in item.items()
                }
                return _same(item, made)
        elif isinstance(item, list) and key in driver_options.LISTS:
            return _unchanged(item, driver_options.of_mount(item))
        elif isinstance(item, str) and item and key in driver_options.TEXTS:
            return driver_options.of_engine(key, item)
        return None

    def _environment(self, item: Any) -> Any:
        if isinstance(item, Mapping):
            return _same(item, {k: self._variable(str(k), v) for k, v in item.items()})
        if isinstance(item, Sequence) and not isinstance(item, str | bytes | bytearray):
            made = [
                _same(one, {**one, "value": self._variable(str(one.get("name")), one["value"])}) if _is_pair(one)
                else self._line_of_env(one) if isinstance(one, str) else self._inner("", one)
                for one in item
            ]  # fmt: skip
            return item if all(a is b for a, b in zip(made, item, strict=True)) else made
        return None

    def _line_of_env(self, text: str) -> str:
        name, equals, value = text.partition("=")
        return f"{name}={self._variable(name, value)}" if equals else self._string("", text)

    def _variable(self, name: str, value: Any) -> Any:
        if not isinstance(value, str) or not value:
            return self._inner("", value)
        if looks_secret(name):
            return withheld.of(value)
        placed = withheld.variable(name, value)
        return self._string("", value) if placed is None else placed

    def _annotation(self, key: str, value: Any) -> Any:
        if not isinstance(value, str) or not value:
            return self._inner("", value)
        placed = withheld.annotation(key, value)
        return self._string(key, value) if placed is None else placed

    def _command(self, above: str, item: Any, owner: Mapping[Any, Any]) -> Any:
        """Return the command of a container, a probe or a plugin of a kubeconfig; ours is text like any other."""
        if not isinstance(item, Sequence) or isinstance(item, str | bytes | bytearray):
            return None
        if above not in _RUN_BY and ("event" in owner or not ("image" in owner or "name" in owner)):
            return None
        variables = owner.get("env")
        ours = isinstance(variables, list) and any(
            _is_pair(one) and one.get("name") == _OWN for one in variables
        )
        made = self._sequence("", item) if ours else arguments.kept(item)
        return item if list(made) == list(item) else made

    def _entries(self, item: Mapping[Any, Any], owner: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the data of a ConfigMap."""
        metadata = owner.get("metadata")
        marks = metadata.get("labels") if isinstance(metadata, Mapping) else None
        ours = isinstance(marks, Mapping) and names.LABEL_RUN in marks
        found: dict[Any, Any] = {}
        for key, value in item.items():
            if not isinstance(value, str):
                found[key] = value
                continue
            placed = (
                withheld.of(value) if looks_secret(str(key)) else withheld.entry(str(key), value, ours=ours)
            )
            found[key] = self._string("", value) if placed is None else placed
        return found

    def _sequence(self, key: str, value: Sequence[Any]) -> Sequence[Any]:
        cleaned: list[Any] = []
        same = True
        secret_follows = False
        for item in value:
            new = self._inner(key, item)
            if secret_follows and isinstance(item, str):
                new = item if secret_texts.is_replaced(item) else REDACTED
            same = same and new is item
            cleaned.append(new)
            secret_follows = isinstance(item, str) and item.startswith("-") and looks_secret(item)
        return value if same else cleaned

    def _without_known(self, text: str) -> str:
        for secret in self.known:
            if len(secret) >= 6:
                text = text.replace(secret, REDACTED)
        return text


_PLACES = (
    _ENVIRONMENTS | _HELD | {"httpHeaders", "annotations", "command", "args", "options", "plugins"}
    | driver_options.MAPS | driver_options.LISTS | driver_options.TEXTS
)  # fmt: skip
_RUN_BY = frozenset({"exec", "trainer", "dataset", "model"})
"""Keys of objects whose command is a container's, though no name or image stands beside it."""


_DEEPEST = 40
"""Levels that are kept of data that is nested without end."""


def _cut(value: Any, levels: int) -> Any:
    """Return plain data of at most so many levels."""
    if isinstance(value, Mapping):
        return {k: _cut(v, levels - 1) for k, v in value.items()} if levels else REDACTED
    if isinstance(value, list | tuple):
        return [_cut(each, levels - 1) for each in value] if levels else REDACTED
    return value


def _data(text: str) -> Any:
    """Return the data that a text is in JSON, None where it is none."""
    if text[:1] not in ("{", "[") or text[-1:] not in ("}", "]"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_pair(one: Any) -> bool:
    return isinstance(one, Mapping) and isinstance(one.get("value"), str)


def _same(old: Mapping[Any, Any], new: dict[Any, Any]) -> Mapping[Any, Any]:
    """Return the old mapping where the new one says the same."""
    return old if old == new else new


def _unchanged(old: list[Any], new: list[Any]) -> list[Any]:
    return old if old == new else new


def _with_kinds(value: Mapping[Any, Any], kind: str) -> Mapping[Any, Any]:
    """Return a list whose items say what they are: in a list of the API they do not."""
    items = value.get("items")
    if not isinstance(items, list):
        return value
    return {**value, "items": [{"kind": kind, **one} if isinstance(one, Mapping) else one for one in items]}


def leaf(path: str, value: Any) -> Any:
    """Return what may be told of one leaf of a profile, such as `fabric.env.HF_TOKEN`."""
    parts = path.split(".")
    for number, part in enumerate(parts[:-1]):
        if part in _PLACES:
            name = ".".join(parts[number + 1 :])
            return clean({part: {name: value}})[part][name]
    return clean({parts[-1]: value})[parts[-1]]


def shown(value: Any) -> Any:
    """Return plain data as it is shown: without secrets, and without characters that steer a terminal."""
    return visible.data(clean(value))


def clean(value: Any) -> Any:
    """Return plain data without secrets, for callers that know no secret values."""
    return _PLAIN.clean(value)


_PLAIN = Redactor()
