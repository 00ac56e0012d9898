"""`gpucluster discover`: write a first profile from what can be seen of a cluster."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.cli import common

if TYPE_CHECKING:
    from pytest_gpucluster.cli.cluster_survey import Survey

DESCRIPTION = """Write a first profile of a cluster to standard output. Nothing on the cluster is changed.

The five required keys are filled in if they can be seen; fill in a key that is left empty, or the profile cannot be
used. Other observations are comments: they are never judged. Bounds, versions and policies, which must be declared,
are prepared as comments.
"""

EXAMPLES = """Example:
  gpucluster discover --context prod-a > clusters/prod-a.yaml
  pytest --cluster=prod-a --gpucluster-plan
"""

NO_CLUSTER = 3
"""Exit status where the cluster does not answer."""

EXITS = {0: "written", **common.MISTAKE, NO_CLUSTER: "no answer from the cluster"}


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("discover", DESCRIPTION, EXITS, EXAMPLES)
    parser.add_argument(
        "--kubeconfig", metavar="FILE", type=Path, help="default: $KUBECONFIG, then ~/.kube/config"
    )
    parser.add_argument(
        "--context", metavar="NAME", help="context of the kubeconfig; default: its current one"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options = parser().parse_args(arguments)
    kubeconfig = _kubeconfig(options.kubeconfig)
    context = _context(kubeconfig, options.context)
    from pytest_gpucluster.cli import profile_draft

    # All of it before the first line is written: a profile that breaks off half-way would look like one.
    text = profile_draft.draft(_survey(kubeconfig, context), kubeconfig, context)
    common.say(text.rstrip("\n"))
    return 0


def _kubeconfig(stated: Path | None) -> Path:
    if stated is not None:
        return common.existing(stated.expanduser(), "kubeconfig").absolute()
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if len(named) > 1:
        raise common.CliError("discover: $KUBECONFIG names several files: choose one with --kubeconfig")
    path = (named[0] if named else Path("~/.kube/config")).expanduser()
    if not path.is_file():
        raise common.CliError(f"discover: no kubeconfig ({path} does not exist): name one with --kubeconfig")
    return path.absolute()


def _context(kubeconfig: Path, stated: str | None) -> str:
    """Return the name of the context: a profile names it, whatever becomes the current one later."""
    import yaml

    try:
        data: Any = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        listed = [str(one["name"]) for one in data.get("contexts") or []]
        current = data.get("current-context")
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise common.CliError(f"discover: kubeconfig {kubeconfig} cannot be read: {error}") from None
    except (AttributeError, KeyError, TypeError):
        raise common.CliError(
            f"discover: {kubeconfig} is not a kubeconfig: it has no list of contexts"
        ) from None
    if stated is None and not current:
        raise common.CliError(
            f"discover: kubeconfig {kubeconfig} has no current context: name one with --context "
            f"({', '.join(sorted(listed)) or 'there are none'})"
        )
    return common.choose(str(stated or current), listed, f"context of {kubeconfig}:")


def _survey(kubeconfig: Path, context: str) -> "Survey":
    from pytest_gpucluster.cli.cluster_survey import Surveyor
    from pytest_gpucluster.kube import connection, errors

    try:
        opened = connection.Connection.open(kubeconfig, context)
        try:
            return Surveyor(opened).survey()
        finally:
            opened.close()
    except errors.GpuClusterError as error:
        raise common.CliError(f"discover: {error}", status=NO_CLUSTER) from None
