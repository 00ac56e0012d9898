"""Who leads is told from two time stamps of different precision; needs no cluster."""

import pytest

from tests.kind.misconfigurations import control_plane


class Told:
    """A cluster of one part, which started and acquired its Lease at given moments."""

    def __init__(self, started, acquired):
        """Take down the two moments; one that did not start has none."""
        status = [{"ready": True, "state": {"running": {"startedAt": started}}}] if started else []
        self.pods = [{"status": {"containerStatuses": status}}]
        self.lease = {"spec": {"acquireTime": acquired}}

    def list(self, *_):
        """Return the part's pods."""
        return self.pods

    def get(self, *_):
        """Return the part's Lease."""
        return self.lease


@pytest.mark.parametrize(
    ("started", "acquired", "does"),
    [
        ("2026-11-28T23:05:37Z", "2026-11-28T23:05:37.896170Z", True),
        ("2026-11-28T23:05:37Z", "2026-11-28T23:05:37.000000Z", True),
        ("2026-11-28T23:05:37Z", "2026-11-28T23:05:53.896170Z", True),
        ("2026-11-28T23:05:37Z", "2026-11-28T23:05:36.999999Z", False),
        ("2026-11-29T00:00:00Z", "2026-11-28T23:59:59.999999Z", False),
        ("", "2026-11-28T23:05:37.896170Z", False),
    ],
)
def test_who_runs_now_leads_once_it_took_the_lease(started, acquired, does):
    """Within the second in which it started too, where one text comes before the other and the moment after."""
    assert control_plane.leads(Told(started, acquired), "kube-scheduler") is does
