"""A record that cannot be read never stands in a log that passes."""

import pytest

from tests.measure.nccl import logs
from tests.measure.nccl.test_no_good_news import decide, good


@pytest.mark.parametrize(
    "text",
    [
        "channel 01/0 : 0[0] -> 1[0] [send] via net/socket/0",
        "CHANNEL 01/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
        "Channel 01/0 : 0[0] -> 1[0] [send] via",
    ],
)
def test_a_record_that_cannot_be_read_spoils_a_good_log(text):
    """Connections in another spelling."""
    assert decide([*good(), logs.record(text, host="a-0", pid=11)]).verdict == "inconclusive"
