"""`gpucluster gatekeeper`: a controller of an AdmissionCheck of Kueue that lets work in only while evidence vouches."""

import contextlib
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.cli import common, gate
from pytest_gpucluster.plain import names

if TYPE_CHECKING:
    from pytest_gpucluster.kube.objects import Objects

DESCRIPTION = """Control one AdmissionCheck of Kueue. While the evidence of runs opens the gate of a policy, the check
is Active, and each Workload that holds quota gets Ready after the gate was read anew for it. If the evidence becomes
too old, or is of other nodes, the check is not Active: its ClusterQueues admit nothing, and what runs stays. It never
writes Ready in advance: with the gatekeeper gone, nothing is admitted. Runs until it is told to end.
"""
EXITS = {
    0: "ended as asked",
    1: "it cannot go on: a permission is missing, or another one took over",
    common.USAGE: f"{common.MISTAKE[common.USAGE]}, or Kueue has no such AdmissionCheck",
}
EXAMPLES = """example:
  gpucluster gatekeeper --check conformance --runs /runs --policy weekly --for prod-a --health-port 8080
"""

FAR_AWAY = 90.0
"""Seconds without a turn of the loop after which it counts as stuck."""


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("gatekeeper", DESCRIPTION, EXITS, EXAMPLES)
    parser.add_argument("--check", metavar="NAME", required=True, help="name of the AdmissionCheck")
    parser.add_argument(
        "--runs",
        metavar="DIR",
        type=Path,
        required=True,
        help="folder of a run, or folder with the folders of runs; those that have ended count",
    )
    gate.add_options(parser)
    parser.add_argument(
        "--health-port", metavar="PORT", type=int, help="answer /healthz and /readyz on this port (no port)"
    )
    parser.add_argument(
        "--lease-namespace",
        metavar="NAME",
        help="namespace of the Lease by which one of several works (`lease_namespace` of the profile)",
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options = parser().parse_args(arguments)
    from pytest_gpucluster.acceptance import policy
    from pytest_gpucluster.kube import connection, errors, objects

    if options.offline:
        raise common.CliError("gatekeeper: --offline: it could not see that a node was replaced")
    # Mistakes are told at once, and not in a loop.
    try:
        policy.load(options.policy)
    except policy.PolicyError as error:
        raise common.mistakes("gatekeeper: ", str(error)) from None
    common.existing(options.runs, "folder")
    profile = common.load_profile(options.cluster, options.profiles, options.set, flag="--for").profile
    if profile.connection is None:
        raise common.CliError(
            f"gatekeeper: the profile {profile.name} has no `connection`: its cluster ends with its run"
        )
    try:
        opened = connection.Connection.open(profile.connection.kubeconfig, profile.connection.context)
        api = objects.Objects(opened)
        _look(api, options.check)
        return _lead(api, options, options.lease_namespace or profile.lease_namespace)
    except errors.GpuClusterError as error:
        raise common.CliError(f"gatekeeper: {error}", status=1) from None


def _look(api: "Objects", name: str) -> None:
    """Look whether there is such a check, and whether it is ours."""
    from pytest_gpucluster.kube import errors
    from pytest_gpucluster.promotion.gatekeeper import forms

    try:
        listed = api.list(forms.CHECK)
    except errors.ApiError as error:
        if error.code == 404:
            raise common.CliError(
                f"gatekeeper: the API serves no AdmissionCheck of {forms.CHECK.api_version} (is Kueue 0.15 or later "
                "installed?)"
            ) from None
        raise
    own = {check["metadata"]["name"]: str(check["spec"].get("controllerName")) for check in listed}
    if name not in own:
        hint = names.did_you_mean(name, own) if own else ""
        raise common.CliError(
            f"gatekeeper: there is no AdmissionCheck {name!r}{hint}: make one with spec.controllerName "
            f"{forms.CONTROLLER}"
        )
    if own[name] != forms.CONTROLLER:
        raise common.CliError(
            f"gatekeeper: AdmissionCheck {name!r} is of the controller {own[name]!r}, not of {forms.CONTROLLER!r}"
        )
    # A check that no queue asks for holds nothing back; whoever may not list the queues is not told so.
    with contextlib.suppress(errors.ApiError):
        if not any(name in forms.checks_of(queue) for queue in api.list(forms.QUEUE)):
            _say(f"note: no ClusterQueue names AdmissionCheck {name} in its spec: nothing is held back")


def _lead(api: "Objects", options: Any, namespace: str) -> int:
    from contextlib import ExitStack

    from pytest_gpucluster.kube import leases
    from pytest_gpucluster.promotion.gatekeeper import health, keeper, leading, reading

    reader = reading.reader(options.runs, _words(options))
    worker = keeper.Keeper(api, options.check, reader, lambda: reading.stamp(options.runs), say=_say)
    holder = f"{socket.gethostname()}-{id(worker):x}"
    lease = names.safe_name("gpucluster", "gatekeeper", options.check)
    terms = leases.Terms(namespace, lease, holder, duration=leading.DURATION)
    leader = leading.Leader(leases.Lease(api, terms), worker.stop)
    leads: list[bool] = []
    clock = api.connection.clock

    def alive() -> bool:
        return not leads or clock.monotonic() - worker.beat < FAR_AWAY

    signal.signal(signal.SIGTERM, _interrupt)
    with ExitStack() as stack:
        if options.health_port is not None:
            try:
                stack.enter_context(
                    health.serving(options.health_port, alive, lambda: not leads or worker.settled)
                )
            except (OSError, OverflowError) as error:
                raise common.CliError(f"gatekeeper: --health-port {options.health_port}: {error}") from None
        stack.callback(leader.give_back)
        try:
            leader.take(_say)
            leads.append(True)
            _say(f"controls AdmissionCheck {options.check}")
            worker.run()
        except KeyboardInterrupt:
            return 0
    why = worker.problem or leader.lost
    if why:
        raise common.CliError(f"gatekeeper: {why}", status=1)
    return 0


def _words(options: Any) -> list[str]:
    """Return the options of `gpucluster gate` that say what is asked."""
    words = ["--policy", options.policy, "--for", options.cluster]
    for flag, values in (
        ("--profiles", options.profiles),
        ("--set", options.set),
        ("--digest", options.digest),
        ("--module", options.module),
    ):
        for value in values:
            words += [flag, str(value)]
    return words


def _say(line: str) -> None:
    common.say(line)
    sys.stdout.flush()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
