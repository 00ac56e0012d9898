"""`gpucluster gate`: whether recorded runs open the gate that a policy describes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.cli import common

if TYPE_CHECKING:
    from pytest_gpucluster.acceptance.decision import Decision
    from pytest_gpucluster.acceptance.runs import Run
    from pytest_gpucluster.evidence.objects import clusters
    from pytest_gpucluster.profile import LoadedProfile

DESCRIPTION = """Judge the evidence of runs again and decide whether they show all that a policy asks for: the latest
verdict of each row, per node where rows speak of machines, no older than the policy accepts, and of this very cluster.
A stored verdict is never believed. Several runs count together, such as scheduling each night and the fabric each week.
"""
EXITS = {
    0: "the gate is open",
    1: "the gate is closed; each reason is printed with what to do",
    common.USAGE: f"{common.MISTAKE[common.USAGE]}, or a row whose module was not named",
    3: "a run cannot be read or was tampered with, or the output could not be written",
}
EXAMPLES = """examples:
  gpucluster gate reports/latest --policy acceptance --for prod-a
  gpucluster gate reports/2026* --policy weekly --for prod-a --markdown >> $GITHUB_STEP_SUMMARY
"""


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("gate", DESCRIPTION, EXITS, EXAMPLES)
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="folder of a run")
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="print the decision as JSON")
    parser.add_argument("--markdown", action="store_true", help="print the decision as Markdown")
    parser.add_argument("--coverage", action="store_true", help="print which row was tried on which node")
    return parser


def add_options(parser: common.Parser, *, required: bool = True) -> None:
    """Add the options by which a gate decides, as `gate`, `promote` and `gatekeeper` have them."""
    parser.add_argument(
        "--policy",
        metavar="POLICY",
        required=required,
        help="acceptance, weekly, after-change, or the path of a file",
    )
    parser.add_argument("--for", metavar="PROFILE", dest="cluster", required=True, help="name of the profile")
    parser.add_argument(
        "--profiles", metavar="DIR", type=Path, action="append", default=[], help="folder with profile files"
    )
    parser.add_argument(
        "--set", metavar="PATH=VALUE", action="append", default=[], help="set a leaf of the profile"
    )
    parser.add_argument(
        "--offline",
        action="store_true",
        help="do not ask the cluster what it is now: compare the runs with the newest of them",
    )
    parser.add_argument(
        "--digest",
        metavar="SHA256",
        action="append",
        default=[],
        help="the digest that a run printed at its end, one per run: each run must have one of these",
    )
    common.add_module_option(parser)


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options = parser().parse_args(arguments)
    if options.json and options.markdown:
        raise common.CliError("gate: --json and --markdown: choose one")
    decision = decided(options, "gate")
    from pytest_gpucluster.acceptance import text

    if options.json:
        common.say_json(decision.as_dict())
    elif options.markdown:
        common.say(text.markdown(decision).rstrip("\n"))
    else:
        for line in text.lines(decision):
            common.say(line)
    if options.coverage and not options.json:
        common.say()
        common.say_table(text.coverage(decision))
    return 0 if decision.open else 1


def decided(options: Any, command: str) -> "Decision":
    """Return the decision that the options of a command ask for; see `considered`."""
    return considered(options, command)[0]


def considered(options: Any, command: str) -> tuple["Decision", list["Run"]]:
    """Return the decision that the options of a command ask for, and the runs, judged again.

    Raises:
        CliError: a policy, a profile or a run that cannot be used, or a cluster that does not answer.
    """
    from pytest_gpucluster.acceptance import decision, policy
    from pytest_gpucluster.plain import times

    try:
        wanted = policy.load(options.policy)
    except policy.PolicyError as error:
        raise common.mistakes(f"{command}: ", str(error)) from None
    loaded = common.load_profile(options.cluster, options.profiles, options.set, flag="--for")
    registry = common.registry(options.module)
    runs = _runs(options, registry)
    now = None if options.offline else _now(loaded, command)
    made = decision.decide(runs, wanted, loaded.profile, times.now(), registry=registry, now=now)
    return made, runs


def _folders(named: Sequence[Path]) -> list[Path]:
    """Return the folders, each once: a link such as `latest` is the run that it points to."""
    return list({common.existing(folder, "run folder").resolve(): folder for folder in named})


def _runs(options: Any, registry: Any) -> list["Run"]:
    from pytest_gpucluster.acceptance import runs

    try:
        return runs.each_once(_read(folder, registry, options.digest) for folder in _folders(options.runs))
    except runs.RunError as error:
        raise common.CliError(str(error), status=error.status) from None


def _read(folder: Path, registry: Any, digests: Sequence[str]) -> "Run":
    from pytest_gpucluster.acceptance import runs
    from pytest_gpucluster.report import record, verify

    if not (folder / record.JOURNAL).exists() and not (folder / record.REPORT).exists():
        raise common.CliError(f"{folder} is not the folder of a run: it has no {record.JOURNAL}")
    try:
        found = runs.read(folder, registry)
    except runs.RunError as error:
        raise common.CliError(str(error), status=error.status) from None
    if digests and found.digest not in {each.strip().lower() for each in digests}:
        raise common.CliError(
            f"{folder}: its digest {found.digest} is none of --digest", status=verify.TAMPERED
        )
    return found


def _now(loaded: "LoadedProfile", command: str) -> "clusters.Cluster | None":
    """Return the cluster as it is; None for one that ends with its run, of which only runs can tell."""
    profile = loaded.profile
    if profile.connection is None:
        return None
    from pytest_gpucluster.evidence.objects import clusters
    from pytest_gpucluster.kube import connection, errors, objects
    from pytest_gpucluster.scenario import cluster_identity

    try:
        opened = connection.Connection.open(profile.connection.kubeconfig, profile.connection.context)
        survey = cluster_identity.survey(
            objects.Objects(opened), profile.namespaces, cluster_identity.declared(profile)
        )
    except errors.EnvironmentProblem as error:
        raise common.CliError(
            f"{command}: the cluster of {profile.name} cannot be asked what it is: {error}; --offline compares the "
            "runs with the newest of them instead"
        ) from None
    return clusters.of_objects(
        profile.gpu_resource, survey.uid, survey.nodes, survey.version, survey.deployments
    )
