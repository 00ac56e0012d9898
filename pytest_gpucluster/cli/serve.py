"""`gpucluster serve`: the embedded cluster by itself, for kubectl and for looking around."""

import argparse
import contextlib
import csv
import io
import os
import select
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.cli import common

if TYPE_CHECKING:
    from pytest_gpucluster.profile import LoadedProfile
    from pytest_gpucluster.provider.embedded import EmbeddedProvider

DESCRIPTION = """Start the embedded cluster and print the line that lets kubectl use it. It ends with Ctrl-C or
SIGTERM, and leaves nothing. If standard input is a terminal or a pipe, the end of it (Ctrl-D) ends it, too.
"""

EXITS = {0: "ended as asked", **common.MISTAKE, 3: "the cluster did not start"}

EXAMPLES = """Example:
  gpucluster serve --kubeconfig /tmp/try --nodes 5
  KUBECONFIG=/tmp/try kubectl get nodes       # in another terminal
"""

_INPUT = 0
"""Standard input, which may be closed: there is no `sys.stdin` then."""

NODE_COUNT = 3
MOST_NODES = 64
"""As in `provider.embedded`, which is imported when a cluster is started and not for --help."""


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("serve", DESCRIPTION, EXITS, EXAMPLES)
    parser.add_argument(
        "--kubeconfig", metavar="FILE", type=Path, help="where to write the kubeconfig; must not exist yet"
    )
    parser.add_argument("--defect", metavar="NAME", action="append", default=[], help="plant a defect")
    parser.add_argument(
        "--nodes",
        metavar="N",
        type=_count,
        default=NODE_COUNT,
        help=f"nodes, 1 to {MOST_NODES} ({NODE_COUNT})",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help='users beside the administrator, one per line: token,user,uid,"group,group" (the format of '
        "kube-apiserver's --token-auth-file); the kubeconfig gets one context per user",
    )
    parser.add_argument(
        "--set", metavar="PATH=VALUE", action="append", default=[], help="set a leaf of the profile"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options = parser().parse_args(arguments)
    if options.kubeconfig is not None and options.kubeconfig.exists():
        raise common.CliError(f"--kubeconfig {options.kubeconfig}: exists and is not overwritten")
    from pytest_gpucluster import provider
    from pytest_gpucluster.provider.embedded import EmbeddedProvider

    try:
        provider.check_defects(options.defect, "embedded")
    except provider.ProviderError as error:
        raise common.CliError(str(error)) from None
    users = () if options.token_file is None else read_tokens(options.token_file)
    source = EmbeddedProvider(options.nodes, users, cpu_nodes=0, tls=True)
    loaded = common.load_profile("embedded", (), options.set)
    return _serve(loaded, options.defect, options.kubeconfig, source)


def _count(text: str) -> int:
    """Return the number of nodes."""
    if not text.isdecimal() or not 1 <= int(text) <= MOST_NODES:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to {MOST_NODES}, got {text!r}")
    return int(text)


def read_tokens(path: Path) -> tuple[dict[str, Any], ...]:
    """Return the users of a token file.

    Raises:
        CliError: the file cannot be read, or a line of it is malformed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "is not UTF-8"
        raise common.CliError(f"--token-file {path}: {why}") from None
    users: list[dict[str, Any]] = []
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        if not row or row[0].lstrip().startswith("#"):
            continue
        cells = [cell.strip() for cell in row]
        if not 3 <= len(cells) <= 4 or not cells[0] or not cells[1]:
            shape = 'token,user,uid or token,user,uid,"group,group"'
            raise common.CliError(f"--token-file {path}: line {number} must be {shape}")
        groups = [group.strip() for group in cells[3].split(",") if group.strip()] if len(cells) > 3 else []
        for field in ("token", "user"):
            if any(user[field] == cells[field == "user"] for user in users):
                raise common.CliError(
                    f"--token-file {path}: line {number} has a {field} that another line has"
                )
        users.append({"token": cells[0], "user": cells[1], "groups": groups})
    return tuple(users)


def _serve(
    loaded: "LoadedProfile", defects: Sequence[str], wanted: Path | None, source: "EmbeddedProvider"
) -> int:
    from pytest_gpucluster import provider

    # SIGTERM leaves by the same way as Ctrl-C: through the context managers, which end the cluster.
    signal.signal(signal.SIGTERM, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix="gpucluster-serve-"))
    keep = False
    try:
        with (
            contextlib.suppress(KeyboardInterrupt),
            provider.start(loaded, folder, defects, source=source) as cluster,
            _placed(Path(cluster.kubeconfig), wanted) as kubeconfig,
            _ending_undisturbed(),
        ):
            common.say(f"export KUBECONFIG={kubeconfig}")
            problem = cluster.facts.get("pods_run_problem")
            if problem:
                common.say(f"# pods do not run here: {problem}")
            listens = _has_writer()
            common.say(
                f"# ends with Ctrl-C{', SIGTERM or the end of standard input' if listens else ' or SIGTERM'}"
            )
            sys.stdout.flush()
            _wait_for_end(listens=listens)
    except provider.ProviderError as error:
        # The error names a log in the folder: here alone something is left, for whoever reads it.
        keep = True
        raise common.CliError(str(error), status=3) from None
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


@contextlib.contextmanager
def _placed(kubeconfig: Path, wanted: Path | None) -> Iterator[Path]:
    """Have the kubeconfig where it is wanted, and take it away at the end."""
    if wanted is None:
        yield kubeconfig
        return
    try:
        # Exclusive: a file that appeared since is somebody else's.
        descriptor = os.open(wanted, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise common.CliError(f"--kubeconfig {wanted}: cannot be written: {error.strerror}") from None
    with os.fdopen(descriptor, "wb") as file:
        written = os.fstat(file.fileno())
        try:
            file.write(kubeconfig.read_bytes())
            file.flush()
            yield wanted.absolute()
        finally:
            _take_away(wanted, written, kubeconfig)


def _take_away(path: Path, written: os.stat_result, ours: Path) -> None:
    """Delete the kubeconfig that we wrote; one that somebody put in its place, or added clusters to, is kept.

    Args:
        path: where it was written.
        written: the file that was written; it is still open, so that no other can have its number.
        ours: the kubeconfig that it was copied from.
    """
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(path.lstat(), written) and _servers(path) <= _servers(ours):
            path.unlink()
            return
        common.say(f"# {path} is kept: it is no longer what was written there")


def _servers(path: Path) -> set[str]:
    """Return the servers that a kubeconfig names; of a file that is none its name, which no server has."""
    import yaml

    try:
        clusters = (yaml.safe_load(path.read_bytes()) or {}).get("clusters") or []
        return {str(one["cluster"]["server"]) for one in clusters}
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        return {str(path)}


@contextlib.contextmanager
def _ending_undisturbed() -> Iterator[None]:
    """Ignore signals from the end of the block on: a second Ctrl-C would leave what the first was to remove."""
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _has_writer() -> bool:
    """Report whether somebody can write to standard input and end it; nobody can with /dev/null, a file, or none."""
    try:
        kind = os.fstat(_INPUT).st_mode
    except OSError:
        return False
    return os.isatty(_INPUT) or stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)


def _wait_for_end(*, listens: bool) -> None:
    """Return at the end of standard input, if that can end; what is written to it is read and ignored."""
    while not listens:
        # Not `pause`: a signal just before it would be heard with the next one only.
        time.sleep(1)
    while True:
        select.select([_INPUT], [], [])
        if not os.read(_INPUT, 4096):
            return


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
