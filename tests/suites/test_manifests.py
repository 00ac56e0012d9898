"""The manifests for people with kubectl are what the scenarios submit."""

import pytest

from docs.manifests import FOLDER, manifests


@pytest.mark.parametrize("name", sorted(manifests()))
def test_a_manifest_is_fresh(name):
    """A changed scenario shows in its file; python -m docs.manifests writes it."""
    assert (FOLDER / name).read_text(encoding="utf-8") == manifests()[name]
