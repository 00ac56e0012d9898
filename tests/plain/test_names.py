"""Names: kind keys, safe names, hints."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.plain import names


def test_kinds_of_one_name_have_different_keys():
    """Both Jobs carry their group; of PodGroup and Workload those of Kubernetes itself do, which came later."""
    assert names.kind_key("scheduling.k8s.io/v1beta1", "PodGroup") == "PodGroup.scheduling.k8s.io"
    assert names.kind_key("scheduling.k8s.io/v1alpha2", "Workload") == "Workload.scheduling.k8s.io"
    assert names.kind_key("kueue.x-k8s.io/v1beta2", "Workload") == "Workload"
    assert names.kind_key("scheduling.k8s.io/v1", "PriorityClass") == "PriorityClass"
    assert names.kind_key("batch.volcano.sh/v1alpha1", "Job") == names.VC_JOB
    assert names.kind_key("batch/v1", "Job") == names.BATCH_JOB
    assert names.kind_key("scheduling.volcano.sh/v1beta1", "PodGroup") == "PodGroup"
    assert names.kind_key_of({"apiVersion": "v1", "kind": "Pod"}) == "Pod"


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4), st.integers(min_value=1, max_value=63))
def test_a_safe_name_is_always_a_dns_label(parts, limit):
    """Whatever goes in, a DNS label within the limit comes out."""
    name = names.safe_name(*parts, limit=limit)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name)
    assert len(name) <= limit


def test_a_hint_names_the_nearest_and_the_list():
    """A mistyped word is answered by the nearest match and by what is allowed."""
    hint = names.did_you_mean("GANG-02", ["GANG-002", "REF-001"])
    assert "did you mean 'GANG-002'" in hint
    assert "REF-001" in hint
    assert "none" in names.did_you_mean("x", [])


def test_a_long_list_is_cut_to_the_nearest():
    """Thirty values in an error line hide the one that was meant; the page that has all is named."""
    known = [f"GANG-{number:03d}" for number in range(1, 31)]
    hint = names.did_you_mean("GANG-31", known, "docs/all.md")
    assert hint.count("GANG-") == 1 + names.FEW
    assert hint.endswith(" and 25 more, see docs/all.md)")
    assert names.did_you_mean("GANG-31", known[: names.LISTED]).count("GANG-") == 1 + names.LISTED


@pytest.mark.parametrize("word", ["gang-002", "Gang-002", "GANG-0O2"])
def test_the_nearest_is_found_whatever_the_case(word):
    """Who types small letters is not led to another row."""
    allowed = ["GANG-002", "REF-002", "KUE-002", "GANG-003"]
    assert names.nearest(word, allowed) == "GANG-002"
    assert "did you mean 'GANG-002'?" in names.did_you_mean(word, [*allowed, *map(str, range(20))])
