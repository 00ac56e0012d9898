"""What a rank of an MPI world does: greet, and add itself to a sum that every rank must know of.

Needs mpi4py over the MPI whose mpiexec started it. Lines as in `lines.py`; mpiexec brings them to the launcher's log.
"""

import socket
import sys

from lines import digits, say


def main() -> int:
    """Join the world and speak."""
    from mpi4py import MPI  # noqa: PLC0415 - what is missing is told by the traceback of this rank

    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    got = world.allreduce(rank + 1)
    library = MPI.Get_library_version().partition(",")[0][:80]
    say("mpi-rank", rank=rank, world=size, host=socket.gethostname(), sum=digits(got), library=library)
    return 0


if __name__ == "__main__":
    sys.exit(main())
