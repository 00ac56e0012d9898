"""What job plugins and the controller tell each pod about itself and the others."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.plugins import argument_expansion, hosts_files, labels

from ..scenarios.healthy import healthy


@requirement(
    "PLG-004",
    level="must",
    documents="J",
    schedulers=["volcano"],
    scenario=healthy,
    judge=argument_expansion.expanded,
    presupposes=[presuppositions.pods_ran],
)
def test_references_in_arguments_are_expanded(settle: Callable[[], None]) -> None:
    """References to variables in arguments are expanded.

    `$(RANK)` and the other variables of the plugins MUST arrive as their values if a container's command or arguments
    refer to them. `$$(NAME)`, and names that the container does not have, MUST arrive as `$(NAME)`.
    """
    settle()


@requirement(
    "PLG-006",
    level="must",
    documents="J",
    schedulers=["volcano"],
    scenario=healthy,
    judge=hosts_files.published,
    presupposes=[presuppositions.pods_ran],
)
def test_hosts_and_indexes_are_published(settle: Callable[[], None]) -> None:
    """Hosts and indexes are published.

    With the svc plugin, each container MUST have VC_<TASK>_HOSTS and VC_<TASK>_NUM of every task, and the hosts files
    in /etc/volcano. With the env plugin, it MUST have its index in VC_TASK_INDEX and VK_TASK_INDEX.
    """
    settle()


@requirement(
    "PLG-007",
    level="must",
    documents="R J",
    schedulers=["volcano"],
    scenario=healthy,
    judge=labels.labelled,
)
def test_every_pod_says_whose_it_is(settle: Callable[[], None]) -> None:
    """Every pod names its Job, task and index.

    Every pod of a Job MUST carry the labels job-name, task-spec and task-index for its place in the Job, and have the
    Job as its controlling owner.
    """
    settle()
