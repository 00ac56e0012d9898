"""What may be asked of the API: a verb on a resource, where; how it is written, granted, and looked up for oneself."""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_gpucluster.kube import connection as connections
from pytest_gpucluster.kube import errors, kinds
from pytest_gpucluster.plain import names

Rule = Mapping[str, Any]

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

_SHAPE = re.compile(
    r"^(?P<verbs>[a-z]+(,[a-z]+)*) (?P<plural>[a-z0-9]+(-[a-z0-9]+)*)(\.(?P<group>[a-z0-9.-]+))?(/(?P<sub>[a-z]+))?"
    r"( in (?P<namespace>[a-z0-9]([-a-z0-9]*[a-z0-9])?|\{[a-z-]+\}))?$"
)


class MalformedPermission(ValueError):  # noqa: N818 (what is wrong with it)
    """A permission that is written wrongly; the text says how it must look."""


@dataclasses.dataclass(frozen=True, order=True)
class Permission:
    """One verb on one resource.

    Attributes:
        group: API group, "" for the core group.
        resource: plural, with `/status` and the like for a sub-resource.
        verb: Kubernetes verb.
        namespace: the namespace it is for, "" for the session's, or for none where the kind lies in none; in braces
            the component whose namespace it is, until a profile says where that is.
        name: the only object it is for, "" for all.
    """

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return it as `Needs.permissions` has it."""
        plural, _, sub = self.resource.partition("/")
        text = f"{self.verb} {plural}" + (f".{self.group}" if self.group else "") + (f"/{sub}" if sub else "")
        return text + (f" in {self.namespace}" if self.namespace else "")

    @property
    def component(self) -> str:
        """Return the component in whose namespace it is, "" where its namespace is known."""
        return self.namespace[1:-1] if self.namespace.startswith("{") else ""

    @property
    def namespaced(self) -> bool:
        """Report whether its objects lie in a namespace; what the table does not have is taken to."""
        plural = self.resource.partition("/")[0]
        return all(
            info.namespaced for info in kinds.TABLE if (info.group, info.plural) == (self.group, plural)
        )


def parse(text: str) -> tuple[Permission, ...]:
    """Read `patch nodes/status`, `create,delete jobs.batch.volcano.sh`, `get configmaps in {volcano}`.

    In braces stands a component, for the namespace that it is installed in.

    Raises:
        MalformedPermission: another shape, or an unknown verb.
    """
    found = _SHAPE.match(text)
    if found is None:
        raise MalformedPermission(
            f"permission {text!r}: must be VERB[,VERB] RESOURCE[.GROUP][/SUBRESOURCE] [in NAMESPACE], "
            "such as 'patch nodes/status' or 'create,delete queues.scheduling.volcano.sh'"
        )
    verbs = found["verbs"].split(",")
    for verb in verbs:
        if verb not in VERBS:
            raise MalformedPermission(
                f"permission {text!r}: unknown verb {verb!r}{names.did_you_mean(verb, VERBS)}"
            )
    resource = found["plural"] + (f"/{found['sub']}" if found["sub"] else "")
    return tuple(Permission(found["group"] or "", resource, verb, found["namespace"] or "") for verb in verbs)


def on(info: kinds.KindInfo, *verbs: str, namespace: str = "", name: str = "") -> set[Permission]:
    """Return the permissions for verbs on a kind."""
    return {Permission(info.group, info.plural, verb, namespace, name) for verb in verbs}


def of_request(request: str) -> Permission | None:
    """Return what a counted request (`create Pod`, `patch Node/status`, `log Pod`) needs.

    None for what every user may ask: versions, discovery, reviews of its own rights.
    """
    verb, _, key = request.partition(" ")
    key, _, sub = key.partition("/")
    info = kinds.by_key(key)
    if info is None:
        return None
    if verb == "log":
        verb, sub = "get", "log"
    return Permission(info.group, f"{info.plural}/{sub}" if sub else info.plural, verb)


# -- granting --------------------------------------------------------------------------------------------------------


def rules(permissions: Iterable[Permission]) -> list[dict[str, Any]]:
    """Return the fewest RBAC rules that grant exactly these, in a fixed order; namespaces are the caller's matter."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for each in permissions:
        # `create` names no object, so that a rule with resourceNames never grants it.
        name = "" if each.verb == "create" else each.name
        verbs.setdefault((each.group, each.resource, name), set()).add(each.verb)
    merged: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, resource, name), allowed in sorted(verbs.items()):
        merged.setdefault((group, name, tuple(sorted(allowed))), []).append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": resources,
            **({"resourceNames": [name]} if name else {}),
            "verbs": list(allowed),
        }
        for (group, name, allowed), resources in merged.items()
    ]


# -- looking up one's own --------------------------------------------------------------------------------------------


class Rights:
    """What the credentials in use may do in one namespace and on the cluster, as far as the server tells."""

    def __init__(self, found: Iterable[Rule] | None, namespace: str = "") -> None:
        """Take the resource rules that hold in a namespace; None where the server cannot tell all of them."""
        self._rules = None if found is None else list(found)
        self._namespace = namespace

    def missing(self, wanted: Iterable[Permission]) -> list[Permission]:
        """Return what is known not to be granted; nothing where the server does not tell, or of other namespaces.

        What is for the session's namespace counts as granted where it is in the namespace that was asked about.
        """
        if self._rules is None:
            return []
        known = self._rules
        told = [p for p in wanted if p.namespace in {"", self._namespace}]
        return sorted(p for p in told if not any(grants(rule, p) for rule in known))


def grants(rule: Rule, wanted: Permission) -> bool:
    """Report whether a rule grants a permission."""
    plural, _, sub = wanted.resource.partition("/")
    resources = {"*", wanted.resource} | ({f"*/{sub}"} if sub else set())
    return (
        bool({"*", wanted.verb} & set(rule.get("verbs") or ()))
        and bool({"*", wanted.group} & set(rule.get("apiGroups") or ()))
        and bool(resources & set(rule.get("resources") or ()))
        and (not rule.get("resourceNames") or wanted.name in rule["resourceNames"])
        and bool(plural)
    )


def own_rights(connection: connections.Connection, namespace: str) -> Rights:
    """Ask what these credentials may do in a namespace, which need not exist; one request.

    Raises:
        ApiError, Unreachable: trouble of the server; a server that refuses the question or does not know all of the
            answer gives rights that miss nothing.
    """
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    about = f"ask for the own rights in {namespace}"
    try:
        answer = connection.call(
            connections.Ask("create", "SelfSubjectRulesReview", "POST", path, about, body=body)
        )
    except errors.ApiError as error:
        if error.code in {403, 404, 405}:
            return Rights(None)
        raise
    status = answer.get("status") or {}
    if status.get("incomplete") or status.get("evaluationError"):
        return Rights(None)
    return Rights(status.get("resourceRules") or [], namespace)
