"""`gpucluster rbac`: the smallest roles with which a selection of the suite runs."""

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.cli import common
from pytest_gpucluster.plain import names, plurals

if TYPE_CHECKING:
    import pytest

    from pytest_gpucluster.kube.permissions import Permission
    from pytest_gpucluster.profile import Profile
    from pytest_gpucluster.requirement import Requirement

NAME = "gpucluster"

DESCRIPTION = """Print the smallest roles that a selection of the suite needs, as YAML for kubectl apply.

They are derived from the declarations of the selected scenarios. If the profile names a namespace (key namespace, or
--namespace), a Role grants what lies in it; otherwise a run makes its own namespace, whose name is not known
beforehand, and a ClusterRole grants everything. With --command they are those of `gpucluster promote` or `gpucluster
gatekeeper` instead. No cluster is touched.
"""

EXITS = {0: "printed", **common.MISTAKE}

EXAMPLES = """Examples:
  gpucluster rbac -m "gang or plugins" --service-account ci/conformance | kubectl apply -f -
  gpucluster rbac -k "GANG-001 or GANG-002" --namespace team-a
  gpucluster rbac --command promote --queue training --cluster prod-a --service-account ci/promotion
"""

PROMOTE, GATEKEEPER = "promote", "gatekeeper"


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("rbac", DESCRIPTION, EXITS, EXAMPLES)
    parser.add_argument(
        "-m", dest="marks", metavar="EXPRESSION", default="", help="rows by area or level, as pytest"
    )
    parser.add_argument(
        "-k", dest="words", metavar="EXPRESSION", default="", help="rows by id or name, as pytest"
    )
    parser.add_argument(
        "--command",
        metavar="COMMAND",
        help="promote or gatekeeper: the roles of that command instead of those of a run",
    )
    parser.add_argument(
        "--queue",
        metavar="NAME",
        dest="queues",
        action="append",
        default=[],
        help="with --command promote: queue that may be opened and closed (those that the profile names)",
    )
    parser.add_argument("--namespace", metavar="NAME", help="namespace that is lent to runs")
    parser.add_argument(
        "--service-account",
        metavar="[NAMESPACE/]NAME",
        help="also print this ServiceAccount and its role bindings",
    )
    parser.add_argument("--name", metavar="NAME", default=NAME, help=f"name of the roles ({NAME})")
    common.add_cluster_options(parser, default="embedded")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options = parser().parse_args(arguments)
    for word in (options.name, options.namespace, *(options.service_account or "").split("/", 1)):
        if word and names.safe_name(word) != word:
            raise common.CliError(
                f"rbac: {word!r} is not a valid name: at most 63 lower case letters, digits and dashes"
            )
    _check_command(options)
    profile = common.load_profile(options.cluster, options.profiles, options.set).profile
    namespace = options.namespace or profile.namespace
    if options.command is None:
        chosen = selected(options.marks, options.words)
        told = " ".join(
            f"{flag} {value!r}" for flag, value in (("-m", options.marks), ("-k", options.words)) if value
        )
        wanted = _of_rows(chosen, profile, namespace)
        count = plurals.count(len({row.scenario.name for row in chosen}), "scenario")
        about = f"{told or 'everything'} on {profile.name} (scheduler {profile.scheduler}): "
        about += f"{plurals.count(len(chosen), 'requirement')} from {count}"
    else:
        wanted = _of_command(options, profile, namespace)
        about = f"gpucluster {options.command} on {profile.name} (scheduler {profile.scheduler})"
    _print(options, about, wanted, namespace)
    return 0


def _check_command(options: Any) -> None:
    """Check what belongs to a command and what to a selection."""
    if options.command is not None:
        common.choose(options.command, (PROMOTE, GATEKEEPER), "command with roles")
        if options.marks or options.words:
            raise common.CliError("rbac: -m and -k select rows of a run: leave them out with --command")
    if options.queues and options.command != PROMOTE:
        raise common.CliError("rbac: --queue only goes with --command promote")


def _of_rows(chosen: Sequence["Requirement"], profile: "Profile", namespace: str | None) -> "set[Permission]":
    """Return what a run of rows takes."""
    from pytest_gpucluster.scenario import permissions
    from pytest_gpucluster.workload import WorkloadError

    scenarios: dict[str, Any] = {row.scenario.name: row.scenario for row in chosen}
    try:
        wanted = permissions.of_run(scenarios.values(), profile, namespace=namespace)
        return wanted | permissions.wished(scenarios.values(), profile, namespace=namespace)
    except WorkloadError as error:
        raise common.CliError(f"rbac: {error}") from None


def _of_command(options: Any, profile: "Profile", namespace: str | None) -> "set[Permission]":
    """Return what a command takes; to promote a held queue also what the rows take that run in it on trial."""
    from pytest_gpucluster.acceptance import held
    from pytest_gpucluster.promotion import roles, targets
    from pytest_gpucluster.promotion.gatekeeper import forms
    from pytest_gpucluster.scenario import cluster_identity

    if options.command == GATEKEEPER:
        return forms.wanted(profile.lease_namespace, cluster_identity.declared(profile), profile.namespaces)
    wanted = roles.of_promotion(profile, options.queues)
    if not any(each.verb == "patch" for each in wanted):
        has = next(targets.declared(profile), None) is not None
        why = "names no queue: say which one with --queue" if has else "declares no scheduler with queues"
        raise common.CliError(f"rbac: nothing can be promoted: the profile {profile.name} {why}")
    if profile.conformance_queue is None:
        return wanted
    return wanted | _of_rows(selected("", " or ".join(held.ROWS)), profile, namespace)


def _print(options: Any, about: str, wanted: "set[Permission]", namespace: str | None) -> None:
    import yaml

    from pytest_gpucluster.scenario import permissions

    documents = permissions.roles(wanted, options.name, namespace=namespace)
    if options.service_account:
        *place, account = options.service_account.split("/", 1)
        documents += permissions.bindings(documents, account, *(place or [namespace or "default"]))
    common.say(f"# {about}")
    if options.command is None:
        common.say(
            f"# in the namespace {namespace}, which exists before the run"
            if namespace
            else "# each run makes its own namespace and removes it"
        )
    common.say(yaml.safe_dump_all(documents, sort_keys=False, default_flow_style=False).rstrip())


def selected(marks: str, words: str) -> list["Requirement"]:
    """Return the requirements of the shipped suites that pytest would run.

    Raises:
        CliError: the selection is malformed, empty, or the suites cannot be collected.
    """
    import pytest

    from pytest_gpucluster.report import suites

    place = suites.location()
    if place is None:
        raise common.CliError("rbac: there are no suites in this installation")
    collected = _Collected()
    # Nothing of the folder from which the command was called takes part: no ini file, no options of its environment.
    arguments = [
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        f"--rootdir={place[0].parent}",
    ]
    arguments += [f"-m={marks}"] if marks else []
    arguments += [f"-k={words}"] if words else []
    with (
        _clean_environment(),
        contextlib.redirect_stdout(io.StringIO()) as said,
        contextlib.redirect_stderr(said),
    ):
        status = pytest.main([*arguments, str(place[0])], plugins=[collected])
    if status == pytest.ExitCode.USAGE_ERROR or (
        collected.items == [] and status != pytest.ExitCode.NO_TESTS_COLLECTED
    ):
        errors = [line for line in said.getvalue().splitlines() if line.startswith("ERROR")]
        why = errors[0].removeprefix("ERROR:").strip() if errors else f"pytest ended with {int(status)}"
        raise common.CliError(f"rbac: {why}")
    if not collected.items:
        raise common.CliError(f"rbac: no requirement is selected by {_selection(marks, words)}")
    return collected.items


class _Collected:
    """A pytest plugin that takes down which requirements are selected."""

    def __init__(self) -> None:
        self.items: list[Requirement] = []

    def pytest_collection_finish(self, session: "pytest.Session") -> None:
        from pytest_gpucluster.hooks import state

        found = [state.declared(item) for item in session.items]
        self.items = list({row.id: row for row in found if row is not None}.values())


@contextlib.contextmanager
def _clean_environment() -> Iterator[None]:
    taken = {
        name: os.environ.pop(name) for name in ("PYTEST_ADDOPTS", "GPUCLUSTER_PLAN") if name in os.environ
    }
    try:
        yield
    finally:
        os.environ.update(taken)


def _selection(marks: str, words: str) -> str:
    told = [f"{flag} {value!r}" for flag, value in (("-m", marks), ("-k", words)) if value]
    return " and ".join(told) or "nothing"
