"""Queues above the job's own: a gang that fits its queue and not the one above is told of that one."""

import pytest

from tests.diagnose.planting import GPU, Dump

SHORT = f"queue resource quota insufficient: insufficient {GPU}"


def above(dump: Dump, **spec: object) -> Dump:
    """Put queue `team` above the job's queue, and a sibling of the latter that uses five GPUs."""
    own = dump.of("Queue")[0]
    own["spec"]["parent"] = "team"
    api = own["apiVersion"]
    return dump.add(
        {
            "apiVersion": api, "kind": "Queue", "metadata": {"name": "team", "uid": "q-team"},
            "spec": {"parent": "root", **spec}, "status": {"state": "Open"},
        },
        {
            "apiVersion": api, "kind": "Queue", "metadata": {"name": "beside", "uid": "q-beside"},
            "spec": {"parent": "team"}, "status": {"state": "Open", "allocated": {GPU: "5"}},
        },
        {"apiVersion": api, "kind": "Queue", "metadata": {"name": "root", "uid": "q-root"}, "spec": {}, "status": {}},
    )  # fmt: skip


def refused(**own: str) -> Dump:
    """Return a gang of 16 GPUs that is refused at enqueue, with room on the nodes."""
    return Dump().refuse(SHORT).queue(capability=own or None).nodes(8, 8, 8)


@pytest.mark.parametrize(
    ("spec", "code", "text"),
    [
        ({"capability": {GPU: "15"}}, "over-capability",
         "the gang asks for 16 nvidia.com/gpu, but queue team above its queue default may have 15"),
        ({"capability": {GPU: "20"}}, "queue-full",
         "queue team, above its queue default, may have 20 nvidia.com/gpu, 5 are in use, and the gang asks for 16"),
    ],
)  # fmt: skip
def test_the_queue_above_is_the_cause(spec, code, text):
    """Its own queue would do; what queues beside it use counts, also where the parent's status says nothing."""
    found = above(refused(**{GPU: "16"}), **spec).diagnose()
    assert found.suspects[0].code == code
    assert text in found.suspects[0].cause.text
    assert any("team" in line for line in found.suspects[0].look)


def test_a_queue_above_that_suffices_is_not_named():
    """With room in it the parent is no cause; a circle of parents ends."""
    dump = above(refused(**{GPU: "8"}), capability={GPU: "100"}, parent="default")
    found = dump.diagnose()
    assert found.suspects[0].code == "over-capability"
    assert "its queue default may have 8" in found.suspects[0].cause.text


def test_above_what_it_deserves_is_only_possible():
    """Nodes and capabilities have room: that a queue deserves less is named, and is not certain."""
    message = "4/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable"
    dump = Dump().nodes(8, 8, 8).queue()
    dump.held().unbind(*dump.pods, message=message)
    plain = dump.diagnose()
    assert plain.suspects[0].code == "fits-and-waits"
    found = above(dump, deserved={GPU: "18"}).diagnose()
    assert found.suspects[0].code == "over-deserved"
    assert (
        "queue team above its queue default deserves 18 nvidia.com/gpu: 5 are in use"
        in found.suspects[0].cause.text
    )
    assert found.state.value == "unclear"
