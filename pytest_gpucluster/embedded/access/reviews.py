"""What a user may ask about its own rights: SelfSubjectAccessReview and SelfSubjectRulesReview.

Discovery does not list them: nothing here looks them up.
"""

from collections.abc import Iterable

from pytest_gpucluster.embedded import errors
from pytest_gpucluster.embedded.access import rbac
from pytest_gpucluster.embedded.access.attributes import Attributes
from pytest_gpucluster.embedded.access.users import MASTERS, User
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.store import Store

GROUP_VERSION = "authorization.k8s.io/v1"
PREFIX = f"/apis/{GROUP_VERSION}/"
ALL: list[Obj] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


def review(store: Store, user: User, resource: str, body: Obj, *, allow_all: bool) -> Obj:
    """Return the review with its status.

    Args:
        store: Where roles and bindings are.
        user: Who asks.
        resource: `selfsubjectaccessreviews` or `selfsubjectrulesreviews`.
        body: The review as it was sent.
        allow_all: Whether nothing is enforced.

    Raises:
        ApiError: 404 for another resource, 422 for a review that asks for nothing.
    """
    spec = body.get("spec") or {}
    match resource:
        case "selfsubjectaccessreviews":
            return _access(store, user, spec, allow_all=allow_all)
        case "selfsubjectrulesreviews":
            return _rules(store, user, spec, allow_all=allow_all)
    raise ApiError(404, "NotFound", "the server could not find the requested resource")


def _answer(kind: str, spec: Obj, status: Obj) -> Obj:
    meta = {"creationTimestamp": None}
    return {"kind": kind, "apiVersion": GROUP_VERSION, "metadata": meta, "spec": spec, "status": status}


def _access(store: Store, user: User, spec: Obj, *, allow_all: bool) -> Obj:
    asked = _asked(spec)
    status: Obj = {"allowed": True}
    if not allow_all:
        try:
            rbac.authorize(store, user, asked)
        except ApiError as error:
            reason = error.message.partition(": RBAC: ")[2]
            status = {"allowed": False} | ({"reason": f"RBAC: {reason}"} if reason else {})
    return _answer("SelfSubjectAccessReview", spec, status)


def _asked(spec: Obj) -> Attributes:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(resource, dict) == isinstance(path, dict):
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        cause = errors.bad_value("spec.resourceAttributes", "", text)
        raise errors.invalid("SelfSubjectAccessReview", "authorization.k8s.io", "", [cause])
    if isinstance(path, dict):
        return Attributes(str(path.get("verb", "")), str(path.get("path", "")))
    fields = {name: str((resource or {}).get(name) or "") for name in ("group", "resource", "subresource")}
    place = {name: str((resource or {}).get(name) or "") for name in ("namespace", "name")}
    return Attributes(str((resource or {}).get("verb") or ""), "", **fields, **place)


def _rules(store: Store, user: User, spec: Obj, *, allow_all: bool) -> Obj:
    namespace = spec.get("namespace")
    if not namespace:
        raise errors.bad_request("no namespace on request")
    everything = allow_all or MASTERS in user.groups
    rules = ALL if everything else list(rbac.rules_of(store, user, str(namespace)))
    status = {
        "resourceRules": _parts(rules, ("verbs", "apiGroups", "resources", "resourceNames")),
        "nonResourceRules": _parts(rules, ("verbs", "nonResourceURLs")),
        "incomplete": False,
    }
    return _answer("SelfSubjectRulesReview", spec, status)


def _parts(rules: Iterable[Obj], fields: tuple[str, ...]) -> list[Obj]:
    """Return the rules of one sort, each with the fields of that sort."""
    sort = fields[-1] if "nonResourceURLs" in fields else "resources"
    return [{f: rule[f] for f in fields if rule.get(f)} for rule in rules if rule.get(sort)]
