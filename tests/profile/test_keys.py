"""The keys that a profile may have, read from the model and from the Kubernetes client."""

import json
import os
import re
from pathlib import Path
from typing import Any

import kubernetes.client
import pytest

from pytest_gpucluster.profile import keys, pod_fields

FIELDS = Path(pod_fields.__file__).with_suffix(".json")


def of_client(models: Any) -> dict[str, dict[str, str]]:
    """Return the fields of a pod's spec as a module of models of the Kubernetes client declares them."""
    found: dict[str, dict[str, str]] = {}
    open_ = ["V1PodSpec"]
    while open_:
        name = open_.pop()
        model = getattr(models, name)
        fields = {model.attribute_map[key]: _value(models, told) for key, told in model.openapi_types.items()}
        found[name] = dict(sorted(fields.items()))
        below = [kind.removeprefix(pod_fields.LIST) for kind in fields.values()]
        open_ += [kind for kind in below if kind not in found and hasattr(models, kind)]
    return dict(sorted(found.items()))


def _value(models: Any, told: str) -> str:
    listed = re.fullmatch(r"(?:list|List)\[(.*)\]", told)
    if listed:
        return pod_fields.LIST + _value(models, listed[1])
    if told.lower().startswith("dict"):
        return pod_fields.FREE
    known = told in {"str", "int", "bool"} or hasattr(getattr(models, told, None), "openapi_types")
    return told if known else pod_fields.ANY


def text_of(models: Any) -> str:
    """Return `pod_fields.json` as it is kept."""
    lines = (f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in of_client(models).items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def test_the_kept_fields_are_those_of_the_client() -> None:
    """A client of a newer Kubernetes brings its fields: UPDATE_GOLDEN=1 takes them over."""
    text = text_of(kubernetes.client)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        FIELDS.write_text(text, encoding="utf-8")
    assert FIELDS.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("path", "some"),
    [
        ([], {"scheduler", "fabric", "gpus_per_node"}),
        (["connection"], {"kubeconfig", "context"}),
        (["fabric", "floors", "0"], {"collective", "busbw"}),
        (["mfu", "training"], {"layers", "compile"}),
        (["mfu", "peaks"], {"bf16", "fp8"}),
        (["host"], {"nodes", "gpus", "environment"}),
        (["kind", "mounts", "3"], {"host", "node"}),
        (["addons"], {"kueue", "volcano"}),
        (["addons", "kueue"], {"source", "sha256"}),
        (["budgets"], {"bind", "torch"}),
        (["versions"], {"kubernetes", "nccl"}),
        (["overlay"], {"metadata", "spec"}),
        (["overlay", "spec"], {"tolerations", "nodeSelector"}),
        (["overlay", "spec", "tolerations", "0"], {"key", "operator"}),
    ],
)
def test_each_place_has_its_keys(path: list[str], some: set[str]) -> None:
    """The model says it once; no list of places stands beside it."""
    assert some <= set(keys.allowed(path))
    assert "name" not in keys.allowed([])


@pytest.mark.parametrize(
    "path", [["fabric", "settings"], ["overlay", "spec", "nodeSelector"], ["queue"], ["no"]]
)
def test_some_places_have_keys_of_ones_own(path: list[str]) -> None:
    """Names of variables and labels are nobody's to list; a leaf has no keys."""
    assert keys.allowed(path) == ()
