"""The volume that workers of elastic jobs share: one fact, stated once."""

from types import SimpleNamespace

import pytest

from pytest_gpucluster.profile import Elastic
from pytest_gpucluster.profile.storage import Storage
from suites.scenarios import elastic

CLAIM = {"source": "claim", "name": "stored"}


def stage(durable=None, **facts):
    """Return a stage of which a volume asks, with what `storage` declares and what the cluster has."""
    storage = None if durable is None else Storage.model_validate({"durable": durable})
    return SimpleNamespace(profile=SimpleNamespace(storage=storage), cluster=SimpleNamespace(facts=facts))


@pytest.mark.parametrize(
    ("checkpoints", "durable", "facts", "source"),
    [
        (None, None, {}, {}),
        (None, CLAIM, {}, {"persistentVolumeClaim": {"claimName": "stored"}}),
        (None, {"source": "host_path", "name": "/lustre"}, {}, {"hostPath": {"path": "/lustre"}}),
        (None, {"source": "storage_class", "name": "a"}, {}, {}),
        (None, CLAIM, {"shared_folder": "/made"}, {"hostPath": {"path": "/made"}}),
        ({"claim": "own"}, CLAIM, {}, {"persistentVolumeClaim": {"claimName": "own"}}),
        ({"path": "/own"}, CLAIM, {"shared_folder": "/made"}, {"hostPath": {"path": "/own"}}),
    ],
)
def test_workers_share_what_is_declared_for_them_else_the_storage_of_checkpoints(
    checkpoints, durable, facts, source
):
    """What is declared of elastic jobs goes before; a class of which runs make claims has none that is there."""
    told = elastic.volume(stage(durable, **facts), Elastic.model_validate({"checkpoints": checkpoints}))
    told.get("hostPath", {}).pop("type", None)
    assert told == source
