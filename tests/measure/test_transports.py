"""The table of transports is whole, and names of networks lead to what carries them."""

import typing

import pytest

from pytest_gpucluster.measure import transports
from pytest_gpucluster.measure.nccl import networks
from pytest_gpucluster.profile import Fabric


def test_every_transport_of_a_profile_has_a_network_but_that_without_one():
    """A name that is declared and unknown to the table would never fit a connection."""
    assert set(typing.get_args(transports.Name)) == {*transports.NETWORKS, transports.NVLINK}
    for name in transports.NETWORKS:
        assert Fabric(transport=name).transport == name


@pytest.mark.parametrize("name", sorted(transports.NETWORKS))
def test_what_is_asked_for_is_what_is_printed(name):
    """NCCL prints the name by which it was asked for a network, and that name has the carrier of its transport."""
    network = transports.NETWORKS[name]
    assert network.printed.fullmatch(network.asked)
    providers = ["efa"] if name == transports.LIBFABRIC else []
    assert networks.of(network.asked, providers) == network.carrier
