"""Authorization by the Role, ClusterRole, RoleBinding and ClusterRoleBinding objects of the store."""

import html
from collections.abc import Iterable, Iterator

from pytest_gpucluster.embedded.access.attributes import Attributes
from pytest_gpucluster.embedded.access.users import MASTERS, User
from pytest_gpucluster.embedded.errors import ApiError, qualified
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.store import Store


def authorize(store: Store, user: User, asked: Attributes) -> None:
    """Let a request pass that a rule allows.

    Raises:
        ApiError: 403 in the API server's words; names bindings whose role is missing.
    """
    if MASTERS in user.groups:
        return
    missing: list[str] = []
    if any(allows(rule, asked) for rule in rules_of(store, user, asked.namespace, missing)):
        return
    raise forbidden(user, asked, missing)


def rules_of(store: Store, user: User, namespace: str, missing: list[str] | None = None) -> Iterator[Obj]:
    """Yield the rules that hold for a user in a namespace ("" for cluster-scoped requests).

    Args:
        store: Where roles and bindings are.
        user: Who asks.
        namespace: Where; RoleBindings count only in it.
        missing: Takes a text for each binding that names a role which is not there.
    """
    for binding in store.peek_all("ClusterRoleBinding"):
        if _binds(binding, user, ""):
            yield from _referred(store, binding, "", missing)
    if namespace:
        for binding in store.peek_all("RoleBinding", namespace):
            if _binds(binding, user, namespace):
                yield from _referred(store, binding, namespace, missing)


def _binds(binding: Obj, user: User, namespace: str) -> bool:
    return any(_is(subject, user, namespace) for subject in binding.get("subjects") or [])


def _is(subject: Obj, user: User, namespace: str) -> bool:
    match subject.get("kind"):
        case "User":
            return bool(subject.get("name") == user.name)
        case "Group":
            return subject.get("name") in user.groups
        case "ServiceAccount":
            where = subject.get("namespace") or namespace
            return bool(where) and user.name == f"system:serviceaccount:{where}:{subject.get('name')}"
    return False


def _referred(store: Store, binding: Obj, namespace: str, missing: list[str] | None) -> Iterable[Obj]:
    reference = binding.get("roleRef") or {}
    kind, name = str(reference.get("kind")), str(reference.get("name"))
    role = None
    if kind == "ClusterRole":
        role = store.peek(kind, None, name)
    elif kind == "Role" and namespace:
        role = store.peek(kind, namespace, name)
    if role is None:
        if missing is not None:
            missing.append(f'{kind.lower()}.rbac.authorization.k8s.io "{name}" not found')
        return ()
    return role.get("rules") or ()


def allows(rule: Obj, asked: Attributes) -> bool:
    """Report whether one rule allows a request."""
    if not _among(asked.verb, rule.get("verbs")):
        return False
    if not asked.of_resource:
        return any(_covers_path(pattern, asked.path) for pattern in rule.get("nonResourceURLs") or [])
    names = rule.get("resourceNames") or []
    return (
        _among(asked.group, rule.get("apiGroups"))
        and any(_covers(pattern, asked) for pattern in rule.get("resources") or [])
        and (not names or asked.name in names)
    )


def _among(word: str, allowed: Iterable[str] | None) -> bool:
    return any(each in ("*", word) for each in allowed or ())


def _covers(pattern: str, asked: Attributes) -> bool:
    if pattern in ("*", asked.full_resource):
        return True
    return bool(asked.subresource) and pattern == f"*/{asked.subresource}"


def _covers_path(pattern: str, path: str) -> bool:
    if pattern in ("*", path):
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


def forbidden(user: User, asked: Attributes, missing: Iterable[str] = ()) -> ApiError:
    """Return the 403 of a request that no rule allows."""
    listed = list(dict.fromkeys(missing))
    reason = ": RBAC: " + (listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]") if listed else ""
    # The API server writes & < > as entities, since browsers may show it.
    text = html.escape(_sentence(user, asked), quote=False) + reason
    if not asked.of_resource:
        return ApiError(403, "Forbidden", f"forbidden: {text}", {})
    about = qualified(asked.resource, asked.group) + (f' "{asked.name}"' if asked.name else "")
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    return ApiError(
        403, "Forbidden", f"{about} is forbidden: {text}", {k: v for k, v in details.items() if v}
    )


def _sentence(user: User, asked: Attributes) -> str:
    if not asked.of_resource:
        return f'User "{user.name}" cannot {asked.verb} path "{asked.path}"'
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    return (
        f'User "{user.name}" cannot {asked.verb} resource "{asked.full_resource}" '
        f'in API group "{asked.group}" {where}'
    )
