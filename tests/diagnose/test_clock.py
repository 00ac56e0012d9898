"""Times of log lines: as they were printed; in a dump nothing is told of a line that prints none."""

from datetime import UTC, datetime, timedelta

import pytest

from pytest_gpucluster import diagnose
from pytest_gpucluster.diagnose import clock
from tests.diagnose.planting import Dump, Obj


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2026-10-05T08:07:39.842901446Z connect failed", datetime(2026, 10, 5, 8, 7, 39, 842901, UTC)),
        ("[2026-10-05 08:07:39] host:1:2 [0] x.cc:1 NCCL WARN y", datetime(2026, 10, 5, 8, 7, 39, 0, UTC)),
        ("2026-10-05 08:07:39,120 ERROR x", datetime(2026, 10, 5, 8, 7, 39, 120000, UTC)),
        ("2026-10-05T10:07:39+02:00 x", datetime(2026, 10, 5, 8, 7, 39, 0, UTC)),
        ("[W1005 08:07:39.842901446 socket.cpp:752] [c10d] x", datetime(2026, 10, 5, 8, 7, 39, 842901, UTC)),
        ("[rank0]:[E1005 08:07:39.1 ProcessGroupNCCL.cpp:632] x", datetime(2026, 10, 5, 8, 7, 39, 100000, UTC)),
        ("[W1399 08:07:39.1 x.cpp:1] x", None),
        ("2026-13-05 08:07:39 x", None),
        ("step 4 loss 2.1", None),
        (f"{'x' * 400} 2026-10-05 08:07:39", None),
    ],
)  # fmt: skip
def test_the_time_that_a_line_prints(text: str, told: datetime | None):
    """Loggers, NCCL, torch and kubectl write it in their own ways; what is none is none."""
    assert clock.printed(text, 2026) == told


def _unresolved(line: str) -> str:
    """Return what is said of a look-up that failed before the master was ready, 300 s before the look."""
    dump = Dump()
    dump.say(dump.workers[0], line)
    endpoints: Obj = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {
        "name": dump.name, "namespace": dump.namespace, "uid": "ep", "creationTimestamp": dump.ago(300)}}  # fmt: skip
    endpoints["subsets"] = [{"addresses": [{"ip": "10.0.0.1", "hostname": "torch-master-0"}]}]
    return " ".join(diagnose.render(dump.add(endpoints).diagnose()).split())


def test_a_dump_tells_when_a_look_up_failed():
    """The line says when it was written: not when the dump was made."""
    dump = Dump()
    stamp = (dump.now - timedelta(seconds=400)).strftime("%m%d %H:%M:%S.0")
    made = min(o["metadata"]["creationTimestamp"] for o in dump.pods)
    t = (dump.now - timedelta(seconds=400) - datetime.fromisoformat(made)).total_seconds()
    said = _unresolved(
        f"[W{stamp} socket.cpp:1] [c10d] (torch-master-0.torch, 1) cannot be retrieved (gai error: -2)"
    )
    assert (
        f"the first failure was at t={t:.0f} s" in said or f"the first failure was at t={t + 1:.0f} s" in said
    ), said


def test_a_line_without_a_time_is_given_none():
    """When it was read says nothing of when it was written."""
    said = _unresolved("(torch-master-0.torch, 1) cannot be retrieved (gai error: -2)")
    assert "became resolvable at" in said
    assert "first failure" not in said
