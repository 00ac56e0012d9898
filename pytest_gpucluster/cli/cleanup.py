"""`gpucluster cleanup`: remove what killed runs left on a cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.cli import common

if TYPE_CHECKING:
    from pytest_gpucluster.kube.connection import Connection

DESCRIPTION = """Remove namespaces, queues and slot resources with the labels of this plugin: those of one run, or all
that have expired. Nothing else is touched. With --cluster kind: the kind clusters of killed runs.
"""

EXITS = {
    0: "nothing is left",
    1: "something could not be removed",
    **common.MISTAKE,
    3: "no answer from the cluster",
}


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("cleanup", DESCRIPTION, EXITS)
    parser.add_argument("folder", metavar="RUN", nargs="?", type=Path, help="folder of the run to remove")
    common.add_cluster_options(parser, default=None)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--run", metavar="ID", help="remove what belongs to this run, expired or not")
    which.add_argument(
        "--all-expired", action="store_true", help="remove what belongs to any run and has expired"
    )
    parser.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options = parser().parse_args(arguments)
    if options.folder is not None:
        _of_folder(options)
    if not options.run and not options.all_expired:
        raise common.CliError("cleanup: name what to remove: the folder of a run, --run ID or --all-expired")
    if not options.cluster:
        raise common.CliError("cleanup: name the cluster: --cluster NAME")
    loaded = common.load_profile(options.cluster, options.profiles, options.set)
    if loaded.profile.provider == "kind":
        return _sweep_kind(options, loaded.profile.kind.name)
    if loaded.profile.connection is None:
        common.say(f"cluster {options.cluster!r} ends with its run: there is nothing to remove")
        return 0
    where = loaded.profile.connection
    return _sweep(where.kubeconfig, where.context, options)


def _of_folder(options: Any) -> None:
    """Take run and cluster from the record of a run."""
    from pytest_gpucluster.report import record

    if options.run or options.all_expired:
        raise common.CliError("cleanup: name a folder, --run ID or --all-expired, only one of them")
    try:
        report = record.load(common.existing(options.folder, "run folder"))
    except record.RecordError as error:
        raise common.CliError(str(error)) from None
    options.run = report["run"]["id"]
    options.cluster = options.cluster or report["cluster"].get("name")


def _nothing(run: str | None) -> str:
    """Say what was looked for in vain: of an id with a slip in it nothing is ever there."""
    if run is None:
        return "nothing of this plugin is there"
    return f"nothing of run {run} is there; --all-expired --dry-run shows what other runs left"


def _sweep(kubeconfig: str, context: str, options: Any) -> int:
    from pytest_gpucluster.kube import errors
    from pytest_gpucluster.scenario.sweep import sweep

    try:
        connection = connect(kubeconfig, context, dry_run=options.dry_run)
        swept = sweep(connection, run_id=options.run)
    except errors.GpuClusterError as error:
        raise common.CliError(str(error), status=3) from None
    verb = "would remove" if options.dry_run else "removed"
    for line in swept.removed:
        common.say(f"{verb} {line}")
    for line in swept.kept:
        common.say(f"kept {line}")
    for item in swept.failed:
        common.say(f"not removed: {item}")
    if not (swept.removed or swept.kept or swept.failed):
        common.say(_nothing(options.run))
    return 1 if swept.failed else 0


def _sweep_kind(options: Any, name: str | None) -> int:
    """Remove kind clusters that runs left; with a name, also what runs left in the cluster of that name."""
    import tempfile

    from pytest_gpucluster import provider
    from pytest_gpucluster.provider.kind import engine, removal

    try:
        clusters = engine.find().clusters()
        due, kept = removal.due(options.run, clusters)
        status = 0
        for each in due:
            try:
                if not options.dry_run:
                    removal.remove(each.name)
                verb = "would remove" if options.dry_run else "removed"
                common.say(f"{verb} kind cluster {each.name} ({each.why})")
            except provider.ProviderError as error:
                common.say(f"not removed: kind cluster {each.name}: {error}")
                status = 1
        for line in kept:
            common.say(f"kept {line}")
        gone = {each.name for each in due}
        if name is not None and name in clusters and name not in gone:
            with tempfile.NamedTemporaryFile(prefix="gpucluster-", suffix=".kubeconfig") as file:
                engine.find().ask_kind("export", "kubeconfig", "--name", name, "--kubeconfig", file.name)
                return max(status, _sweep(file.name, f"kind-{name}", options))
        if not due and not kept:
            common.say(_nothing(options.run))
    except provider.ProviderError as error:
        raise common.CliError(str(error), status=3) from None
    return status


def connect(kubeconfig: str, context: str, *, dry_run: bool) -> "Connection":
    """Return a connection; for a dry run one that reads and answers every change as if it had been made."""
    from pytest_gpucluster.kube import connection as connections

    class ReadOnly(connections.Connection):
        """Reads for real, changes nothing."""

        def call(self, ask: connections.Ask) -> dict[str, Any]:
            return super().call(ask) if ask.method == "GET" else {}

    return (ReadOnly if dry_run else connections.Connection).open(kubeconfig, context)
