"""The ssh and mpi job plugins."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.plugins import mpi_control, mpi_launch, ssh_logins

from ..scenarios.mpi import mpi


@requirement(
    "PLG-012",
    level="must",
    documents="J",
    schedulers=["volcano"],
    scenario=mpi,
    judge=ssh_logins.each_to_each,
    presupposes=[presuppositions.pods_ran],
)
def test_members_log_in_to_each_other(settle: Callable[[], None]) -> None:
    """The ssh plugin lets members log in to each other.

    The keys of the Secret <job>-ssh MUST be in /root/.ssh of every member with mode 0600. Each member MUST be able to
    log in to each other without a password. The finding tells a key that may not be used from one that is not
    accepted, a name that does not resolve, and a server that does not listen.
    """
    settle()


@requirement(
    "PLG-008",
    level="must",
    documents="J",
    schedulers=["volcano"],
    scenario=mpi,
    judge=mpi_launch.reaches_every_rank,
    presupposes=[presuppositions.pods_ran],
)
def test_mpiexec_reaches_every_rank(settle: Callable[[], None]) -> None:
    """The mpi plugin lets the master reach every rank.

    A Job with the mpi plugin MUST get svc and ssh, and its master MPI_HOST with the names of the workers. The master
    MUST be able to log in to each worker without a password. mpiexec MUST run a rank on each worker, whose sum over
    all ranks is right. The end of the launcher MUST end the Job.
    """
    settle()


@requirement(
    "PLG-009",
    level="control",
    documents="J",
    schedulers=["volcano"],
    scenario=mpi,
    judge=mpi_control.unreachable_without_plugins,
    presupposes=[presuppositions.pods_ran],
)
def test_without_plugins_workers_let_nobody_in(settle: Callable[[], None]) -> None:
    """The contrast: without the mpi and ssh plugins the ranks are unreachable.

    The detector MUST see that the master has no MPI_HOST, that no member has keys, and that a worker refuses the login
    for want of one. An image that brings keys of its own does not show it.
    """
    settle()
