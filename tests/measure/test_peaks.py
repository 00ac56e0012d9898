"""Peaks: which entry a name stands for, and when there is none."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.measure import peaks, shipped

LISTED = [
    (name, entry["name"]) for entry in shipped.load(peaks.LIST)["gpus"] for name in entry["known_names"]
]


@pytest.mark.parametrize(("name", "entry"), LISTED)
def test_each_known_name_finds_its_own_entry(name, entry):
    """The order of the list tells NVL and PCIe from SXM, A10G from A10, L40S from L40."""
    for spelt in (name, name.lower(), name.replace(" ", "-"), name.replace("-", "_")):
        found = peaks.look_up(spelt)
        assert found.part is not None, spelt
        assert found.part.name == entry
        assert found.why == ""


@pytest.mark.parametrize(
    ("name", "bf16"),
    [
        ("NVIDIA H100 80GB HBM3", 989.4), ("NVIDIA H100 PCIe", 756.5), ("NVIDIA H100 NVL", 835.5),
        ("NVIDIA H200", 989.5), ("NVIDIA H20", 148), ("NVIDIA A10G", 70), ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA GB200", 2500), ("NVIDIA B200", 2250), ("AMD_Instinct_MI300X_OAM", 1307.4), ("NVIDIA L40S", 362.05),
    ],
)  # fmt: skip
def test_dense_figures(name, bf16):
    """None of them is the sparse one, or another part's."""
    assert peaks.look_up(name).peak("bf16") == bf16


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "slice"),
        ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "slice"),
        ("NVIDIA-H100-80GB-HBM3-SHARED", "share"),
        ("NVIDIA A100-4C", "virtual"),
        ("NVIDIA L40S-48Q", "virtual"),
        ("NVIDIA X9000", "no peak is known"),
        ("", "no name"),
        ("NVIDIA GeForce RTX 4090", "no peak is known"),
    ],
)
def test_names_without_a_peak(name, why):
    """A slice, a shared, a virtual and an unknown GPU have none, and never a default."""
    found = peaks.look_up(name)
    assert found.part is None
    assert why in found.why
    assert all(found.peak(one) is None for one in peaks.FORMATS)


def test_fewer_multiprocessors_make_a_slice():
    """MIG that the name hides, or a partition of an MI300X."""
    assert peaks.look_up("NVIDIA H100 80GB HBM3", 132).peak("bf16") == 989.4
    assert "slice" in peaks.look_up("NVIDIA H100 80GB HBM3", 16).why
    assert "slice" in peaks.look_up("AMD Instinct MI300X", 38).why


def test_a_bare_name_is_uncertain():
    """`NVIDIA H100` is also the name of custom parts of 96 GB at 500 W."""
    assert peaks.look_up("NVIDIA H100 80GB HBM3").certain
    assert not peaks.look_up("NVIDIA H100").certain


def test_form_factors():
    """Of an A100 only the name tells the form; where it does not, it is said to be unknown."""
    assert peaks.look_up("NVIDIA A100-SXM4-40GB").form == "SXM"
    assert peaks.look_up("NVIDIA A100 80GB PCIe").form == "PCIe"
    assert peaks.look_up("NVIDIA A100").form == "unknown"
    assert peaks.look_up("NVIDIA H100 NVL").form == "PCIe"


def test_no_format_stands_for_another():
    """A V100 has no bf16 path, an A100 no fp8: nothing is put in their place."""
    assert peaks.look_up("Tesla V100-SXM2-16GB").peak("bf16") is None
    assert peaks.look_up("NVIDIA A100-SXM4-40GB").peak("fp8") is None


def test_every_entry_states_what_it_must():
    """Source, form, and figures that agree: fp8 twice bf16, tf32 about half."""
    for part in peaks.known():
        assert part.source
        assert part.form
        assert all(re.compile(pattern) for pattern in part.match)
        assert set(part.weak) <= set(part.match)
        assert set(part.peak) <= set(peaks.FORMATS)
        bf16 = part.peak.get("bf16", part.peak["fp16"])
        if "fp8" in part.peak:
            assert part.peak["fp8"] == pytest.approx(2 * bf16, rel=0.02)
        if "tf32" in part.peak:
            assert part.peak["tf32"] == pytest.approx(bf16 / 2, rel=0.02)


@given(st.text(max_size=40))
def test_no_name_raises_and_none_is_guessed(name):
    """Whatever a driver calls its GPU: either an entry whose pattern is in the name, or a reason."""
    found = peaks.look_up(name)
    if found.part is None:
        assert found.why
    else:
        assert any(re.search(pattern, peaks.normalise(name)) for pattern in found.part.match)


@given(st.text(alphabet="aA1-_ \t", max_size=20))
def test_normalising_twice_changes_nothing(name):
    """Spelling with dashes, underscores and blanks is one name."""
    once = peaks.normalise(name)
    assert peaks.normalise(once) == once
    assert peaks.normalise(name.replace("-", "_")) == once
