"""The pytorch job plugin."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.plugins import name_resolution, pytorch_env, reachability
from pytest_gpucluster.judge.rendezvous.presuppositions import master_name_resolves

from ..scenarios.healthy import healthy
from ..scenarios.wiring import miswired


@requirement(
    "PLG-001",
    level="must",
    documents="R J",
    schedulers=["volcano"],
    scenario=healthy,
    judge=pytorch_env.pytorch_env,
    presupposes=[presuppositions.pods_ran],
    smoke=True,
)
def test_the_pytorch_plugin_wires_the_ranks(settle: Callable[[], None]) -> None:
    """The pytorch plugin wires the ranks.

    MASTER_ADDR, MASTER_PORT and WORLD_SIZE MUST be set in every regular container of every task, and RANK in master
    and worker tasks. Process 1 of the container MUST see the documented values.
    """
    settle()


@requirement(
    "PLG-003",
    level="must",
    documents="R J",
    schedulers=["volcano"],
    scenario=healthy,
    judge=name_resolution.master_resolves,
    presupposes=[presuppositions.pods_ran, name_resolution.cluster_dns_asked],
    smoke=True,
)
def test_the_master_resolves_from_every_member(settle: Callable[[], None]) -> None:
    """The svc plugin is always on with pytorch.

    A Job with the pytorch plugin MUST get a headless Service and a DNS name for each pod. MASTER_ADDR MUST resolve to
    the master's pod IP from every member.
    """
    settle()


@requirement(
    "PLG-011",
    level="must",
    documents="R P",
    scenario=healthy,
    judge=reachability.master_answers,
    presupposes=[presuppositions.pods_ran, master_name_resolves],
)
def test_members_reach_the_master(settle: Callable[[], None]) -> None:
    """Members can connect to the master's port.

    Every member MUST be able to open a TCP connection to the master's address and port. The finding distinguishes a
    connection that something between the pods stops (a NetworkPolicy, a service mesh's sidecar) from a name that does
    not resolve.
    """
    settle()


@requirement(
    "PLG-005",
    level="control",
    documents="R J",
    schedulers=["volcano"],
    scenario=miswired,
    judge=pytorch_env.without_plugin_control,
    presupposes=[presuppositions.pods_ran],
)
def test_miswired_jobs_show_what_is_missing(settle: Callable[[], None]) -> None:
    """The contrast: without the plugin, or with names that do not match, the wiring is missing.

    The detector MUST see that nothing is injected without the plugin or with a wrong master name. It MUST see that
    with a wrong worker name WORLD_SIZE counts only masters and RANK is missing. The finding names the cause of each.
    """
    settle()
