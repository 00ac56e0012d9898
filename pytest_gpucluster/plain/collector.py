"""The cycle collector, out of the way while much data is read at once."""

import contextlib
import gc
import threading
from collections.abc import Iterator


class _Pause:
    """How many threads want it paused; the last one lets it go on.

    What somebody else has frozen stays so. That it is there is found once: to count it is to go through all of it.
    """

    lock = threading.Lock()
    holders = 0
    was = True
    others = False


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Pause the cycle collector: parsed JSON has no cycles, and looking for some takes longer than parsing it.

    What was read then goes to the oldest generation at once (freeze and unfreeze do that without a look at it), or
    the collector would go through all of it three times while it grows old.
    """
    with _Pause.lock:
        if not _Pause.holders:
            _Pause.was = gc.isenabled()
            gc.disable()
        _Pause.holders += 1
    try:
        yield
    finally:
        with _Pause.lock:
            _Pause.holders -= 1
            _Pause.others = _Pause.others or gc.get_freeze_count() > 0
            if not _Pause.others:
                gc.freeze()
                gc.unfreeze()
            if not _Pause.holders and _Pause.was:
                gc.enable()
