"""Label and field selectors of a list or watch."""

from collections.abc import Callable, Mapping

from pytest_gpucluster.embedded.errors import bad_request
from pytest_gpucluster.embedded.objects import Obj, labels_of
from pytest_gpucluster.embedded.resources import ResourceType
from pytest_gpucluster.plain.selectors import SelectorError, matches_labels, parse_selector

Predicate = Callable[[Obj], bool]

ALWAYS_SELECTABLE = ("metadata.name", "metadata.namespace")


def field_value(obj: Obj, path: str) -> str:
    """Return a field as selectors compare it: a text, empty when unset."""
    if path == "source":
        return str((obj.get("source") or {}).get("component") or obj.get("reportingComponent") or "")
    value: object = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if path == "status.successful":
        value = (obj.get("status") or {}).get("succeeded") or 0
    if path == "spec.unschedulable":
        value = bool(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def parse_fields(row: ResourceType, text: str) -> list[tuple[str, bool, str]]:
    """Return the terms of a field selector as (path, equal, value).

    Raises:
        ApiError: 400 when the selector has another shape or the type does not support a field.
    """
    out: list[tuple[str, bool, str]] = []
    for term in filter(None, (t.strip() for t in text.split(","))):
        for operator in ("!=", "==", "="):
            path, found, value = term.partition(operator)
            if found:
                break
        else:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if path not in ALWAYS_SELECTABLE and path not in row.fields:
            raise bad_request(f'field label not supported: "{path}"')
        out.append((path, operator != "!=", value))
    return out


def everything(obj: Obj) -> bool:  # noqa: ARG001
    """Select every object."""
    return True


def selection(row: ResourceType, query: Mapping[str, str], name: str | None = None) -> Predicate:
    """Return the predicate of a request's labelSelector and fieldSelector.

    Raises:
        ApiError: 400 when one of them cannot be understood.
    """
    fields = parse_fields(row, query.get("fieldSelector", ""))
    if name is not None:
        fields.append(("metadata.name", True, name))
    try:
        labels = parse_selector(query.get("labelSelector", ""))
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    if not fields and not labels["matchExpressions"]:
        return everything

    def select(obj: Obj) -> bool:
        return all((field_value(obj, p) == v) == equal for p, equal, v in fields) and matches_labels(
            labels, labels_of(obj)
        )

    return select
