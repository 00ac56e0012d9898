"""The pytorch plugin's own port, and its init container that waits for the master."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.plugins import master_port, wait_for_master
from pytest_gpucluster.judge.rendezvous.presuppositions import master_name_resolves

from ..scenarios.waiting import waiting


@requirement(
    "PLG-002",
    level="must",
    documents="R J",
    schedulers=["volcano"],
    scenario=waiting,
    judge=master_port.master_port,
    presupposes=[presuppositions.pods_ran],
)
def test_the_port_is_the_default_or_the_one_asked_for(settle: Callable[[], None]) -> None:
    """The master's port.

    MASTER_PORT MUST be 23456 if the Job does not set it, and the port of `--port` if it does, in every regular
    container of every task. The port MUST be declared on the container.
    """
    settle()


@requirement(
    "PLG-010",
    level="should",
    documents="J",
    schedulers=["volcano"],
    scenario=waiting,
    judge=wait_for_master.held_until_the_master_answers,
    presupposes=[presuppositions.pods_ran, master_name_resolves],
)
def test_workers_wait_until_the_master_answers(settle: Callable[[], None]) -> None:
    """Workers wait until the master answers.

    With `--wait-master-enabled`, the containers of a worker SHOULD start only after the master listens on its port.
    """
    settle()


@requirement(
    "PLG-013",
    level="must",
    documents="J",
    schedulers=["volcano"],
    scenario=waiting,
    judge=wait_for_master.gives_up_in_time,
    presupposes=[presuppositions.pods_ran],
)
def test_waiting_for_the_master_ends_in_time(settle: Callable[[], None]) -> None:
    """Waiting for the master ends in time and names it.

    If the master never listens, the init container MUST fail after `--wait-master-timeout`, and its log MUST name the
    master.
    """
    settle()
