"""A record that cannot be read, or that cannot be so, never stands in a log that passes."""

import pytest

from tests.measure.nccl import logs
from tests.measure.nccl.test_no_good_news import decide, good


@pytest.mark.parametrize(
    "text",
    [
        "channel 01/0 : 0[0] -> 1[0] [send] via net/socket/0",
        "CHANNEL 01/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
        "Channel 01/0 : 0[0] -> 1[0] [send] via",
        "comm 0x9a rank 5 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",
        "ncclCommInitRank comm 0x9a rank 2 nranks 2 cudaDev 0 busId 1b000 commId 0x1 - Init COMPLETE",
    ],
)
def test_a_record_that_cannot_be_read_spoils_a_good_log(text):
    """Connections in another spelling, and ranks beyond the last of their communicator."""
    assert decide([*good(), logs.record(text, host="a-0", pid=11)]).verdict == "inconclusive"
