"""What annotations ask of further networks."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.node import attachments
from pytest_gpucluster.node.attachments import Attachment, AttachmentError, Interface


def pod(text: str) -> dict[str, object]:
    """Return a pod with an annotation."""
    return {"metadata": {"namespace": "a", "annotations": {attachments.ASKED: text}}}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("fast", (Attachment("a/fast", "net1"),)),
        ("b/fast@roce0, slow", (Attachment("b/fast", "roce0"), Attachment("a/slow", "net2"))),
        ('[{"name": "fast", "namespace": "b"}, {"name": "slow", "interface": "wg0"}]',
         (Attachment("b/fast", "net1"), Attachment("a/slow", "wg0"))),
    ],
)  # fmt: skip
def test_both_shapes_are_read(text: str, found: tuple[Attachment, ...]) -> None:
    """Short and JSON; interfaces without a name are numbered."""
    assert attachments.wanted(pod(text), ("fast", "slow")) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "fats",
            "cannot find a network-attachment-definition (fats) in namespace (a): these nodes have fast",
        ),
        ("b/fats", "in namespace (b)"),
        ("[", "cannot be read"),
        ('[{"interface": "net1"}]', "cannot be read"),
        ("[1]", "cannot be read"),
        ("fast@net1,fast@net1", "gives an interface twice"),
        ("fast@eth0", "a name that cannot be used"),
        ("fast@a-name-of-sixteen", "a name that cannot be used"),
    ],
)
def test_a_wish_that_cannot_be_met_is_one_line(text: str, said: str) -> None:
    """Which network, where, and what there is."""
    with pytest.raises(AttachmentError) as caught:
        attachments.wanted(pod(text), ("fast",))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=30))
def test_no_annotation_breaks_the_reader(text: str) -> None:
    """It is read or refused."""
    try:
        found = attachments.wanted(pod(text), ("fast",))
    except AttachmentError:
        return
    assert all(one.network.endswith("/fast") for one in found)


def test_the_result_names_each_interface() -> None:
    """The pod's own network comes first and is the default one."""
    made = [Interface(Attachment("a/fast", "net1"), "10.89.1.1", "02:00:00:00:00:01")]
    own, second = json.loads(attachments.status("10.88.1.1", made))
    assert (own["interface"], own["default"]) == ("eth0", True)
    assert second == {"name": "a/fast", "interface": "net1", "ips": ["10.89.1.1"], "mac": "02:00:00:00:00:01"}
