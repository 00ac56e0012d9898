"""Keeps the membership of elastic worlds outside of all workers: a TCPStore server, and nothing else.

Workers meet at it with `--rdzv-backend=c10d --rdzv-conf=is_host=false`, each job under an id of its own. Lines as in
`lines.py`.
"""

import argparse
import signal
import sys

from lines import say


def main() -> int:
    """Serve until the pod is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=29400)
    args = parser.parse_args()
    # Blocked before torch starts its threads, so that the signal waits until it is asked for.
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    from torch.distributed import TCPStore  # noqa: PLC0415

    store = TCPStore("0.0.0.0", args.port, is_master=True, wait_for_workers=False, multi_tenant=True)  # noqa: S104
    say("elastic-store", backend="c10d-store-pod", port=store.port)
    signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    sys.exit(main())
