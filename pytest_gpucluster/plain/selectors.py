"""Label selectors, in the two notations of Kubernetes."""

import re
from collections.abc import Mapping
from typing import Any

_TERM = re.compile(
    r"\s*(?:(?P<not>!)\s*(?P<nkey>[\w./-]+)"
    r"|(?P<key>[\w./-]+)\s*(?:(?P<op>==|=|!=)\s*(?P<val>[\w.-]*)"
    r"|\s+(?P<set>in|notin)\s*\((?P<vals>[^)]*)\))?)\s*(?:,|$)"
)


class SelectorError(ValueError):
    """A text that is no label selector."""


def matches_labels(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Report whether labels satisfy a LabelSelector object (matchLabels and matchExpressions)."""
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    for term in selector.get("matchExpressions") or []:
        if not _holds(term["key"], term["operator"], term.get("values") or [], labels):
            return False
    return True


def _holds(key: str, operator: str, values: list[str], labels: Mapping[str, str]) -> bool:
    present = key in labels
    match operator:
        case "In":
            return present and labels[key] in values
        case "NotIn":
            return not present or labels[key] not in values
        case "Exists":
            return present
        case "DoesNotExist":
            return not present
    raise SelectorError(f"unknown selector operator {operator!r}")


def parse_selector(text: str) -> dict[str, Any]:
    """Return the LabelSelector object of a query text such as `a=b,c!=d,e in (f,g),!h,i`.

    Raises:
        SelectorError: when the text has another shape.
    """
    terms: list[dict[str, Any]] = []
    at = 0
    while at < len(text):
        match = _TERM.match(text, at)
        if match is None or match.end() == at:
            raise SelectorError(f"not a label selector: {text!r} (at {text[at:]!r})")
        at = match.end()
        if match["not"]:
            terms.append({"key": match["nkey"], "operator": "DoesNotExist"})
        elif match["set"]:
            values = [v.strip() for v in match["vals"].split(",")]
            name = "In" if match["set"] == "in" else "NotIn"
            terms.append({"key": match["key"], "operator": name, "values": values})
        elif match["op"]:
            name = "NotIn" if match["op"] == "!=" else "In"
            terms.append({"key": match["key"], "operator": name, "values": [match["val"]]})
        else:
            terms.append({"key": match["key"], "operator": "Exists"})
    return {"matchExpressions": terms}
