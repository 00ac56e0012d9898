"""Kinds of trouble while a checkpoint is saved: memory of one rank or of a copy, and ranks that wait for a saver."""

from tests.diagnose.kinds_said import _ended
from tests.diagnose.kinds_started import WATCHDOG, Plant, Row
from tests.diagnose.planting import Dump


def _oom(says: tuple[str, ...]) -> Plant:
    return _ended(137, "OOMKilled", says=says)


GLOO = "RuntimeError: [../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation"


def _waits(saver: str, waiter: str, *, more: tuple[str, ...] = ()) -> Plant:
    """Let one worker have said that it saves, and the master that it waited in vain."""

    def plant() -> Dump:
        dump = Dump()
        dump.say(dump.workers[1], "step 400 loss 2.31", saver, *more)
        dump.say(dump.master, "step 400 loss 2.31", waiter)
        return dump

    return plant


KINDS: dict[str, Row] = {
    "a rank that gathers the state": (
        _oom(("[rank0]: step 90", "[rank0]: gathering full state dict on rank 0 before saving checkpoint")),
        "trouble", "member-failed", ["rank 0 gathers the state", "torch.distributed.checkpoint", "8Gi"],
        ["asynchronous"],
    ),
    "rank 0 alone, and nothing says why": (
        _oom(("rank=0 step 12", "rank=0 Saving model checkpoint to /mnt/ckpt/12")),
        "trouble", "member-failed", ["only rank 0 did", "either", "full state dict"], ["asynchronous"],
    ),
    "an asynchronous save holds memory": (
        _oom(("rank=3 step 12", "rank=3 async_save of checkpoint step 12 started", "rank=3 step 13")),
        "trouble", "member-failed", ["asynchronous save keeps a copy", "until it is written"], ["gathers"],
    ),
    "memory that ran out after a save": (
        _oom(("rank=0 saving checkpoint 12", "rank=0 checkpoint saved in 4 s", "rank=0 step 13")),
        "trouble", "member-failed", ["OOMKilled", "8Gi"], ["in the middle of a save", "gathers"],
    ),
    "a full disk in a save is no lack of memory": (
        _ended(1, says=("saving checkpoint 12", "OSError: [Errno 28] No space left on device: '/mnt/ckpt/12'")),
        "trouble", "member-failed", ["/mnt/ckpt/12", "full"], ["in the middle of a save", "gathers"],
    ),
    "a barrier that waits for a saver": (
        _waits("rank=2 saving checkpoint to /mnt/slow/400", GLOO),
        "trouble", "checkpoint-holds-barrier", ["rank 2", "in the middle of a save", "longer time-out"],
        ["test the fabric"],
    ),
    "a watchdog that barks while a rank saves": (
        _waits("[rank2]: writing state_dict shard", WATCHDOG),
        "trouble", "checkpoint-holds-barrier", ["rank 2"], [],
    ),
    "a step after the save": (
        _waits("rank=2 saving checkpoint to /mnt/slow/400", GLOO, more=("step 401 loss 2.2", "step 402 loss 2.1")),
        "healthy", "", [], ["in the middle of a save"],
    ),
    "a save that is only planned": (
        _waits("rank=2 will save checkpoint every 500 steps", GLOO),
        "healthy", "", [], ["in the middle of a save"],
    ),
    "a setting of saves": (
        _waits("rank=2 save_checkpoint=True async_save=False", GLOO),
        "healthy", "", [], ["in the middle of a save"],
    ),
    "memory that runs out while a checkpoint is loaded": (
        _oom(("rank=2 Loading checkpoint shards and writing state_dict cache",)),
        "trouble", "member-failed", ["OOMKilled"], ["in the middle of a save"],
    ),
    "a save beside which an asynchronous one is off": (
        _oom(("rank=3 async_save disabled", "rank=3 saving checkpoint 12")),
        "trouble", "member-failed", ["in the middle of a save"], ["asynchronous save keeps"],
    ),
    "a rank that gathers figures and not the state": (
        _oom(("rank=2 gathering model metrics on rank 0", "rank=2 saving checkpoint 12")),
        "trouble", "member-failed", ["in the middle of a save"], ["gathers the state"],
    ),
    "memory that runs out in the steps after a save": (
        _oom(("rank=0 saving checkpoint 12", *(f"rank=0 step {n} loss 2.1" for n in range(13, 20)))),
        "trouble", "member-failed", ["OOMKilled"], ["in the middle of a save"],
    ),
    "a barrier after the save": (
        _waits("rank=2 saving checkpoint to /mnt/slow/400", GLOO, more=("rank=2 checkpoint 400 saved", "step 401")),
        "healthy", "", [], ["in the middle of a save"],
    ),
}  # fmt: skip
