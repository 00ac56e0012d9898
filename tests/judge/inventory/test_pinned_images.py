"""INV-007: images of pods as the cluster admitted them."""

import pytest

from pytest_gpucluster.judge.inventory import pinned_images as judge
from pytest_gpucluster.requirement import Verdict
from tests import recordings

DIGEST = "sha256:" + "0f" * 32
PINNED = f"registry.example/team/torch@{DIGEST}"
TAGGED = "registry.example/team/torch:2.9"
MARK = [{"name": "GPUCLUSTER_CONTAINER", "value": "main"}]


def container(image, name="main", *, ours=True, **more):
    """Return a container, marked as ours or not."""
    return {"name": name, "image": image, **({"env": MARK} if ours else {}), **more}


def pod(*containers, init=(), ran="", **spec):
    """Return a pod; `ran` is what the kubelet says of each container."""
    statuses = [{"name": one["name"], "imageID": ran} for one in containers]
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u-p", "namespace": "n"},
        "spec": {"containers": list(containers), "initContainers": list(init), **spec},
        "status": {"containerStatuses": statuses},
    }


def seen(*pods, images=None):
    """Return evidence of pods."""
    lines = [{"t": 0.0, "type": "ADDED", "kind": "Pod", "object": one} for one in pods]
    return recordings.evidence_of(lines, header={"given": {"images": images or {"torch": PINNED}}})


def decided(*pods, images=None):
    """Return the finding."""
    return judge.pinned_by_digest(seen(*pods, images=images))


@pytest.mark.parametrize(
    "image", [PINNED, f"registry.example:5000/team/torch:2.9@{DIGEST}", f"a@sha512:{'0f' * 64}"]
)
def test_a_digest_pins(image):
    """Whether a tag stands beside it or not."""
    assert decided(pod(container(image))).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "image", [TAGGED, "torch", "torch:latest", "torch@sha256:0f0f", "torch:sha256-" + "0f" * 32, ""]
)
def test_what_is_no_digest_does_not_pin(image):
    """A tag that looks like one, and half of one."""
    found = decided(pod(container(image)), images={"torch": image})
    assert (found.verdict, found.violation, found.causes) == (Verdict.FAIL, True, (judge.BY_TAG,))


@pytest.mark.parametrize(
    ("made", "causes"),
    [
        (pod(container(PINNED), container("proxy:1.2", "istio-proxy", ours=False)), {judge.ADDED}),
        (pod(container(PINNED), init=[container("init", "istio-init", ours=False)]), {judge.ADDED}),
        (pod(container(PINNED), init=[container(TAGGED, "first")]), {judge.REWRITTEN}),
        (
            pod(container(PINNED), ephemeralContainers=[container("debug:1", "debugger", ours=False)]),
            {judge.ADDED},
        ),
        (pod(container(TAGGED), container("proxy:1.2", "agent", ours=False)), {judge.REWRITTEN, judge.ADDED}),
    ],
)
def test_every_container_counts_and_has_its_own_cause(made, causes):
    """Init containers, sidecars, and what was put in later; who put it there decides what mends it."""
    found = decided(made)
    assert (found.verdict, set(found.causes)) == (Verdict.FAIL, causes)


def test_the_digest_that_ran_is_told():
    """It can be copied into the profile."""
    found = decided(pod(container(TAGGED), ran=f"docker-pullable://{PINNED}"), images={"torch": TAGGED})
    assert f"torch@{DIGEST}" in found.observed


@pytest.mark.parametrize(
    ("made", "held"),
    [
        (pod(container(TAGGED, imagePullPolicy="Never")), False),
        (pod(container(TAGGED), ran="sha256:" + "0f" * 32), False),
        (pod(container(TAGGED), ran=f"docker.io/library/import-2026-11-03@{DIGEST}"), False),
        (pod(container(PINNED), ran="sha256:" + "0f" * 32), True),
        (pod(container(TAGGED), ran=PINNED), True),
    ],
)
def test_what_was_loaded_into_a_node_comes_from_no_registry(made, held):
    """It has no digest to pin: that is told, and neither passed nor failed."""
    assert judge.from_a_registry(seen(made), {}).held is held
    if not held:
        assert decided(made).verdict is not Verdict.FAIL


def test_nothing_seen_is_no_pass():
    """Neither no pod at all, nor a role without its pod."""
    assert judge.from_a_registry(seen(), {}).held is None
    assert decided().verdict is Verdict.INCONCLUSIVE
    two = {"python": PINNED, "torch": TAGGED}
    assert decided(pod(container(PINNED)), images=two).verdict is Verdict.INCONCLUSIVE
