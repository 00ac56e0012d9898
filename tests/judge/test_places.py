"""What a finding says of places is true of the time that it tells of."""

from types import SimpleNamespace

from pytest_gpucluster.judge import wording


def test_a_member_that_was_bound_later_was_nowhere_then():
    """`observed` says that it was not bound, so `where` does not name the node that it got when there was room."""
    early, late = (SimpleNamespace(name=f"w-{n}", where=f"Pod/w-{n} on gpu-{n}") for n in range(2))
    half = SimpleNamespace(members=(early,), missing=(late,))
    assert wording.places_of_half(half) == ("Pod/w-0 on gpu-0", "Pod/w-1, not bound then")
