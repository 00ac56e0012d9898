"""What is declared of a cluster can be planted wrong, too."""

import pytest

from pytest_gpucluster import profile, provider
from pytest_gpucluster.plain.planted import IMAGE_WITHOUT_CLIENT
from pytest_gpucluster.profile import defects


def test_a_floor_in_gbits_is_declared_besides():
    """Nothing else of the profile changes, and without the defect nothing at all."""
    sound = provider.completed(profile.load("embedded")).profile
    assert defects.declared(sound, ["node.misaligned"]) is sound
    wrong = defects.declared(sound, [defects.FLOOR_IN_GBITS])
    assert [floor.busbw for floor in wrong.fabric.floors] == [pytest.approx(2800.0)]
    assert wrong.model_copy(update={"fabric": sound.fabric}) == sound


def test_an_image_without_a_client_shows_where_etcd_is_declared():
    """The nodes plant the image; the profile must ask for what it lacks."""
    sound = provider.completed(profile.load("embedded")).profile
    wrong = defects.declared(sound, [IMAGE_WITHOUT_CLIENT])
    assert (sound.elastic.backend, wrong.elastic.backend) == ("c10d-store-pod", "etcd-v2")
    assert wrong.model_copy(update={"elastic": sound.elastic}) == sound


def test_nothing_is_planted_where_no_fabric_is_declared():
    """There is no floor to be wrong."""
    bare = provider.completed(profile.load("embedded")).profile.model_copy(update={"fabric": None})
    assert defects.declared(bare, [defects.FLOOR_IN_GBITS]) is bare
