"""Shapes of names that Kubernetes, a container runtime or Linux would refuse later, and say less about."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_WORD = r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"

KIND = "shape"
"""Type of the error of a text that has another shape."""

Check = Callable[[str], str]


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a text must look like; stands in `Annotated[str, ...]`.

    Attributes:
        pattern: of the whole text.
        wanted: what it must be, for the error line.
        longest: characters.
        like: makes a text of this shape of another one, "" where none can be made.
        refuses: says of a text of this shape why it cannot be meant, "" where it can.
    """

    pattern: str
    wanted: str
    longest: int = 253
    like: Check = lambda _text: ""
    refuses: Check = lambda _text: ""

    def problem(self, text: str) -> str:
        """Return what is wrong with a text, "" if nothing is."""
        if not self._fits(text):
            near = self.like(text)
            known = self._fits(near) and len(near) <= self.longest and not self.refuses(near)
            return f"must be {self.wanted}" + (f"; did you mean {near!r}?" if near and known else "")
        if len(text) > self.longest:
            return f"must have at most {self.longest} characters, has {len(text)}"
        return self.refuses(text)

    def _fits(self, text: str) -> bool:
        return re.fullmatch(self.pattern, text) is not None

    def check(self, text: str) -> str:
        """Return the text.

        Raises:
            PydanticCustomError: it has another shape.
        """
        problem = self.problem(text)
        if problem:
            # A template: braces in it would be read as places.
            raise PydanticCustomError(KIND, "{problem}", {"problem": problem})
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return how a leaf is validated: a text, never empty, then its shape."""
        text = core_schema.str_schema(strict=True, min_length=1)
        return core_schema.no_info_after_validator_function(self.check, text)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return what an editor is told."""
        return {**handler(schema), "pattern": self.pattern}


def _lowered(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def _lowered_parts(text: str) -> str:
    namespace, _, name = text.partition("/")
    return f"{_label_like(namespace)}/{_lowered(name)}"


def _label_like(text: str) -> str:
    return _lowered(text.replace(".", "-"))


def _word_like(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-_.")


def _key_like(text: str) -> str:
    domain, slash, name = text.rpartition("/")
    return f"{_lowered(domain)}{slash}{_word_like(name)}"


def _key_refuses(text: str) -> str:
    name = text.rpartition("/")[2]
    return "" if len(name) <= 63 else f"must have at most 63 characters after the slash, has {len(name)}"


def _resource_refuses(text: str) -> str:
    domain = text.partition("/")[0]
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or domain.startswith("requests."):
        return f"must be a resource of a device plugin, DOMAIN/NAME: no plugin may offer {domain}/..."
    return _key_refuses(text)


OBJECT = Shape(
    rf"^{_SUBDOMAIN}$",
    "a name that Kubernetes takes: lower-case letters, digits, '-' and '.', first and last a letter or digit",
    like=_lowered,
)
LABELLED = dataclasses.replace(OBJECT, longest=63)
"""Name of an object that also stands as the value of a label."""
NAMESPACE = Shape(
    rf"^{_LABEL}$",
    "a name that Kubernetes takes: lower-case letters, digits and '-', first and last a letter or digit",
    63,
    _label_like,
)
LABEL_KEY = Shape(
    rf"^({_SUBDOMAIN}/)?{_WORD}$",
    "the key of a label, NAME or DOMAIN/NAME, such as example.com/pool",
    317,
    _key_like,
    _key_refuses,
)
LABEL_VALUE = Shape(
    rf"^({_WORD})?$",
    "the value of a label: letters, digits, '-', '_' and '.', first and last a letter or digit",
    63,
    _word_like,
)
RESOURCE = Shape(
    rf"^{_SUBDOMAIN}/{_WORD}$",
    "the name of a resource of a device plugin, DOMAIN/NAME, such as nvidia.com/gpu",
    317,
    _key_like,
    _resource_refuses,
)
IMAGE = Shape(
    # As the distribution's reference says it: host, path in lower case, tag, digest.
    r"^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9]+:[0-9a-f]{32,})?$",
    "an image such as registry.example/team/torch:2.9, its path in lower case",
    1024,
    lambda text: re.sub(r"[^a-z0-9._:/@-]+", "-", text.lower()).strip("-"),
)
INTERFACE = Shape(r"^[^\s/]{1,15}$", "the name of a network interface, at most 15 characters, such as eth0")
ADAPTER = Shape(
    r"^[A-Za-z0-9_.-]+(:[0-9]+)?$",
    "the name of one adapter, such as mlx5_0",
    like=lambda text: re.sub(r"[^A-Za-z0-9_.:-]+", "", text),
)
NO_SPACE = Shape(r"^\S+$", "one word, as NCCL prints it, such as IBext_v8")
NETWORKS = Shape(
    rf"^(\[.*\]|({_LABEL}/)?{_LABEL}(@\S+)?(\s*,\s*({_LABEL}/)?{_LABEL}(@\S+)?)*)$",
    "a network as the annotation names it, NAME or NAMESPACE/NAME",
    4096,
    _lowered,
)
DEFINITION = Shape(
    rf"^{_LABEL}/{_SUBDOMAIN}$",
    "a network with its namespace, NAMESPACE/NAME, such as default/roce-network",
    317,
    lambda text: f"default/{_lowered(text)}" if "/" not in text else _lowered_parts(text),
)
KIND_CLUSTER = Shape(
    r"^[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?$",
    "lower-case letters, digits, '-' and '.', at most 40 characters",
    40,
    _lowered,
)
SIZE = Shape(
    r"^[1-9][0-9]{0,11}(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$",
    "a size of Kubernetes, such as 200Gi",
    like=lambda text: re.sub(r"[\sbB]", "", text),
)
PATH = Shape(r"^/.*$", "an absolute path", 4096, lambda text: f"/{text}")
SHA256 = Shape(r"^[0-9a-fA-F]{64}$", "the 64 hexadecimal digits that `sha256sum` prints")
REQUIREMENT = Shape(
    r"^[A-Z]{2,5}-\d{3}$", "the id of a requirement, such as GANG-001", like=lambda text: text.upper()
)
ENDPOINT = Shape(
    rf"^({_SUBDOMAIN}|[0-9.]+):[0-9]{{1,5}}$",
    "HOST:PORT, such as etcd.training.svc.cluster.local:2379",
    like=lambda text: re.sub(r"^[a-z0-9+]+://", "", text.lower()).rstrip("/"),
)
VARIABLE = Shape(r"^[A-Za-z_][A-Za-z0-9_]*$", "the name of a variable, such as NCCL_IB_HCA")
