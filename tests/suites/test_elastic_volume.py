"""The volume on which workers of elastic jobs save: that of `storage.durable`, a fact stated once."""

from types import SimpleNamespace

import pytest

from pytest_gpucluster.profile.storage import Storage
from suites.scenarios import elastic


class Stage(SimpleNamespace):
    """A stage of which a volume asks; it keeps what is submitted."""

    def submit(self, manifest, role):
        """Keep an object."""
        self.submitted.append((role, manifest))


def stage(durable=None, nodes=2):
    """Return a stage with what `storage` declares."""
    storage = None if durable is None else Storage.model_validate({"durable": durable, "nodes": nodes})
    profile = SimpleNamespace(storage=storage)
    return Stage(profile=profile, name="elastic-training", namespace="of-the-run", submitted=[])


@pytest.mark.parametrize(
    ("durable", "source"),
    [
        ({"source": "claim", "name": "stored"}, {"persistentVolumeClaim": {"claimName": "stored"}}),
        ({"source": "host_path", "name": "/lustre"}, {"hostPath": {"path": "/lustre", "type": "Directory"}}),
        (
            {"source": "storage_class", "name": "a"},
            {"persistentVolumeClaim": {"claimName": "elastic-training-durable"}},
        ),
    ],
)
def test_workers_save_on_the_durable_volume(durable, source):
    """Whatever it is; of a class a claim is made, and of nothing else."""
    on = stage(durable)
    volume = elastic.volume(on)
    assert (volume.source, volume.path) == (source, elastic.SHARED_DIR)
    assert elastic.saves(on)
    made = [
        (role, each["spec"]["storageClassName"], each["spec"]["accessModes"]) for role, each in on.submitted
    ]
    assert made == ([("claim", "a", ["ReadWriteMany"])] if durable["source"] == "storage_class" else [])


@pytest.mark.parametrize(
    "durable", [None, {"source": "storage_class", "name": "a", "access": "ReadWriteOnce"}]
)
def test_nothing_is_saved_where_workers_share_no_volume(durable):
    """A claim of one node would keep workers of other nodes from starting."""
    on = stage(durable, nodes=1)
    assert (elastic.volume(on), elastic.saves(on), on.submitted) == (None, False, [])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ([], ""),
        ([{"backend": "etcd-v2", "ok": True}], ""),
        ([{"backend": "c10d", "ok": False, "missing": {"torch": "gone"}}], ""),
        (
            [{"backend": "etcd-v2", "ok": False, "missing": {"etcd": "gone"}}],
            "cannot use etcd-v2: {'etcd': 'gone'}",
        ),
        ([{"backend": "etcd-v2", "ok": False, "error": "nobody there"}], "cannot use etcd-v2: nobody there"),
    ],
)
def test_a_meeting_that_no_agent_can_use_is_known_at_once(said, told):
    """Of the backend that is meant: another job's lack is its own."""
    on = SimpleNamespace(said=lambda *_: [SimpleNamespace(data=data) for data in said])
    found = elastic.unusable(on, elastic.Meeting("etcd-v2", "store:2379"))
    assert found.endswith(told)
    assert bool(found) == bool(told)
