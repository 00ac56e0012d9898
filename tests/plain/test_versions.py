"""Versions in what components print, and ranges of them."""

import pytest

from pytest_gpucluster.plain import versions


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("v1.37.0", (1, 37, 0)),
        ("v1.34.2-eks-1a2b", (1, 34, 2)),
        ("v1.33.4+k3s1", (1, 33, 4)),
        ("570.172.08", (570, 172, 8)),
        ("latest", None),
        ("nightly-20260101", None),
        ("sha256:0011", None),
        ("", None),
    ],
)
def test_the_version_in_a_text(text, wanted):
    """What cannot be compared is no version."""
    assert versions.parse(text) == wanted


@pytest.mark.parametrize(
    ("image", "wanted"),
    [
        ("docker.io/volcanosh/vc-scheduler:v1.14.4", (1, 14, 4)),
        ("localhost:5000/a/b:1.2-alpine3.19", (1, 2)),
        ("localhost:5000/a/b", None),
        ("10.1.2.3:5000/a/b", None),
        ("a/b@sha256:1.2", None),
        ("a/b:v1.2.3@sha256:00", (1, 2, 3)),
        ("a/b:latest", None),
    ],
)
def test_the_version_of_an_image(image, wanted):
    """Only a tag tells; a registry's port or address does not."""
    assert versions.of_image(image) == wanted


@pytest.mark.parametrize(
    ("range_", "inside", "outside"),
    [
        ("1.14", ["1.14.0", "1.14.4", "1.14"], ["1.1.4", "1.140.0", "1.15.0"]),
        (">=1.33 <1.38", ["1.33.0", "1.37.9"], ["1.32.9", "1.38.0"]),
        (">= 1.33, <= 1.37", ["1.33.0", "1.37.9"], ["1.38.0"]),
        (">1.33", ["1.34.0"], ["1.33.9"]),
        ("v2", ["2.0.1"], ["3.0"]),
        ("==1.2.3", ["1.2.3"], ["1.2.4", "1.2"]),
    ],
)
def test_ranges(range_, inside, outside):
    """A bound compares as many numbers as it has."""
    for text in inside:
        assert versions.within(versions.parse(text), range_), text
    for text in outside:
        assert not versions.within(versions.parse(text), range_), text


@pytest.mark.parametrize("text", ["", "1.x", "~1.2", "latest", ">=", "1.2 or 1.3"])
def test_what_is_no_range(text):
    """A range that cannot be read is refused when it is declared, not when it is judged."""
    with pytest.raises(versions.RangeError, match="not a range of versions"):
        versions.check_range(text)
