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

    from pytest_gpucluster.requirement import Requirement

NAME = "gpucluster"

DESCRIPTION = """Print the smallest roles that a selection of the suite needs, as YAML for kubectl apply.

They are derived from the declarations of the selected scenarios. If the profile names a namespace (key namespace, or
--namespace), a Role grants what lies in it; otherwise a run makes its own namespace, whose name is not known
beforehand, and a ClusterRole grants everything. No cluster is touched.
"""

EXITS = {0: "printed", **common.MISTAKE}

EXAMPLES = """Examples:
  gpucluster rbac -m "gang or plugins" --service-account ci/conformance | kubectl apply -f -
  gpucluster rbac -k "GANG-001 or GANG-002" --namespace team-a
"""


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("rbac", DESCRIPTION, EXITS, EXAMPLES)
    parser.add_argument(
        "-m", dest="marks", metavar="EXPRESSION", default="", help="rows by area or level, as pytest"
    )
    parser.add_argument(
        "-k", dest="words", metavar="EXPRESSION", default="", help="rows by id or name, as pytest"
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
    profile = common.load_profile(options.cluster, options.profiles, options.set).profile
    chosen = selected(options.marks, options.words)
    namespace = options.namespace or profile.namespace
    _print(options, profile, chosen, namespace)
    return 0


def _print(options: Any, profile: Any, chosen: Sequence["Requirement"], namespace: str | None) -> None:
    import yaml

    from pytest_gpucluster.scenario import permissions
    from pytest_gpucluster.workload import WorkloadError

    scenarios: dict[str, Any] = {row.scenario.name: row.scenario for row in chosen}
    try:
        wanted = permissions.of_run(scenarios.values(), profile, namespace=namespace)
        wanted |= permissions.wished(scenarios.values(), profile, namespace=namespace)
    except WorkloadError as error:
        raise common.CliError(f"rbac: {error}") from None
    documents = permissions.roles(wanted, options.name, namespace=namespace)
    if options.service_account:
        *place, account = options.service_account.split("/", 1)
        documents += permissions.bindings(documents, account, *(place or [namespace or "default"]))
    told = " ".join(
        f"{flag} {value!r}" for flag, value in (("-m", options.marks), ("-k", options.words)) if value
    )
    common.say(
        f"# {told or 'everything'} on {profile.name} (scheduler {profile.scheduler}): "
        f"{plurals.count(len(chosen), 'requirement')} from {plurals.count(len(scenarios), 'scenario')}"
    )
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
