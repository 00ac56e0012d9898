"""What the commands share: errors of one line, a parser that keeps to them, tables, loading a profile."""

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_gpucluster.plain import names, visible

if TYPE_CHECKING:
    from pytest_gpucluster.profile import LoadedProfile
    from pytest_gpucluster.requirement import Registry

USAGE = 2
"""Exit status of a mistake of the user."""
UNWRITTEN = 3
"""Exit status of a command whose output could not be written, as on a full disk: nobody has its answer."""


MISTAKE = {USAGE: "a mistake in the command or in a file"}
"""The exit status that every command has."""

ANSWER_EXITS = {
    0: "the answer is yes",
    1: "the answer is no or undecided",
    **MISTAKE,
    3: "a record cannot be read, was tampered with, or could not be written",
}
"""Exit status -> what it says, of each command that tells the answer of a run."""


LIKE_FILE = 0.75
"""How like a file beside the missing one a name is, of 1, to be taken for it: folders are full of other files."""


class CliError(Exception):
    """A mistake of the user or of a file; the text is one line.

    Attributes:
        status: exit status.
        others: further mistakes of the same file, a line each.
    """

    def __init__(self, text: str, status: int = USAGE, others: Sequence[str] = ()) -> None:
        """Take the line and the exit status."""
        super().__init__(text)
        self.status = status
        self.others = tuple(others)


def mistakes(command: str, text: str) -> CliError:
    """Return the error of a file with several mistakes, a line each, all told at once."""
    first, *others = text.splitlines()
    return CliError(f"{command}{first}", others=[f"{command}{each}" for each in others])


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of a command, as the reference tells it.

    Attributes:
        names: the option with its value, such as `-n NS, --namespace NS`, or the placeholder of a positional argument.
        help: what it means.
    """

    names: str
    help: str


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line with the nearest match.

    Attributes:
        exits: exit status -> what it says.
    """

    def __init__(self, command: str, about: str, exits: Mapping[int, str], examples: str = "") -> None:
        """Make the parser of one command; its help ends with the exit statuses and the examples."""
        listed = "\n".join(
            textwrap.fill(f"  {status}  {meaning}", 118, subsequent_indent=" " * 5)
            for status, meaning in exits.items()
        )
        super().__init__(
            prog=f"gpucluster {command}",
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            description=about,
            epilog="\n\n".join(filter(None, (f"exit status:\n{listed}", examples))),
        )
        self.exits = exits
        self._command = command

    def arguments(self) -> list[Argument]:
        """Return the arguments in the order of the help, without `--help` itself."""
        found: list[Argument] = []
        for action in self._actions:
            if isinstance(action, argparse._HelpAction):  # noqa: SLF001 (argparse has no other list of arguments)
                continue
            value = "" if action.nargs == 0 else str(action.metavar or action.dest)
            value = {"+": f"{value} ...", "*": f"[{value} ...]", "?": f"[{value}]"}.get(
                str(action.nargs), value
            )
            names_ = [f"{flag} {value}".rstrip() for flag in action.option_strings] or [value]
            found.append(Argument(", ".join(names_), action.help or ""))
        return found

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse options and other words in any order; an unknown option is named with its nearest match."""
        found, unknown = self.parse_known_intermixed_args(args, namespace)
        for word in unknown:
            flags = [
                flag for action in self._actions for flag in action.option_strings if flag.startswith("--")
            ]
            if word.startswith("-"):
                hint = names.did_you_mean(word.partition("=")[0], flags)
                raise CliError(f"{self._command}: unknown option {word!r}{hint}")
            self.error(f"one argument too many: {word!r}")
        return found

    def error(self, message: str) -> NoReturn:
        """Raise the message as one line."""
        raise CliError(f"{self._command}: {message}; see {self.prog} --help")


@contextlib.contextmanager
def reading(files: Iterable[Path], what: str) -> Iterator[None]:
    """Say in one line that files cannot be dealt with, whatever is in them: they come from anywhere.

    Args:
        files: the files.
        what: what cannot be done with them, such as `judged`.

    Raises:
        CliError: with status 3, which no violation has.
    """
    try:
        yield
    except (CliError, BrokenPipeError):
        raise
    except Exception as error:
        named = ", ".join(map(str, files))
        text = f"{named}: cannot be {what}: a value in it has a form that was not expected"
        raise CliError(f"{text} ({type(error).__name__}: {error})", status=3) from error


def choose(word: str, allowed: Iterable[str], what: str) -> str:
    """Return the word if it is allowed.

    Raises:
        CliError: with the nearest match and what is allowed.
    """
    known = list(allowed)
    if word not in known:
        raise CliError(f"unknown {what} {word!r}{names.did_you_mean(word, known)}")
    return word


def existing(path: Path, what: str) -> Path:
    """Return the path if it exists.

    Raises:
        CliError: with the nearest name in the same folder.
    """
    if path.exists():
        return path
    beside = [item.name for item in path.parent.iterdir()] if path.parent.is_dir() else []
    match = names.nearest(path.name, beside, LIKE_FILE)
    hint = f"; did you mean {str(path.parent / match)!r}?" if match else ""
    raise CliError(f"no such {what}: {str(path)!r}{hint}")


def add_module_option(parser: Parser) -> None:
    """Add the option that names modules with requirements of a site's own."""
    parser.add_argument(
        "--module",
        metavar="FILE|MODULE",
        action="append",
        default=[],
        help="first import your own requirements: a Python file, or a dotted name; may be repeated",
    )


def registry(modules: Sequence[str] = ()) -> "Registry":
    """Return the registry with the shipped suites in it.

    Args:
        modules: further modules with requirements, each a file or a dotted name.

    Raises:
        CliError: a module cannot be imported.
    """
    from pytest_gpucluster.report import suites

    try:
        return suites.load_suites(modules)
    except suites.SuiteError as error:
        raise CliError(str(error)) from None


def check_site(row_id: str, known: Iterable[str], modules: Sequence[str]) -> None:
    """Check that a requirement of a site's own is among those that were imported.

    Raises:
        CliError: it is not; says that its module must be named, or the nearest of those that were.
    """
    from pytest_gpucluster.requirement import is_site

    own = [name for name in known if is_site(name)]
    if not is_site(row_id) or row_id in own:
        return
    if not modules:
        raise CliError(
            f"unknown requirement {row_id!r}: it belongs to a site; name its module with --module FILE"
        )
    hint = names.did_you_mean(row_id, own) if own else ""
    raise CliError(f"unknown requirement {row_id!r} in {', '.join(modules)}{hint}")


def add_cluster_options(parser: Parser, *, default: str | None) -> None:
    """Add the options that name a profile, as pytest has them."""
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        default=os.environ.get("GPUCLUSTER_CLUSTER", default),
        help="cluster: embedded, host, kind, or the name of a profile file",
    )
    parser.add_argument(
        "--profiles", metavar="DIR", type=Path, action="append", default=[], help="folder with profile files"
    )
    parser.add_argument(
        "--set", metavar="PATH=VALUE", action="append", default=[], help="set a leaf of the profile"
    )


def load_profile(
    name: str, folders: Sequence[Path], overrides: Sequence[str] = (), *, flag: str = "--cluster"
) -> "LoadedProfile":
    """Return a profile, found where pytest finds it.

    Args:
        name: name of the profile.
        folders: folders to search first.
        overrides: leaves to set.
        flag: option by which the command takes the name.

    Raises:
        CliError: an unknown cluster or a profile that cannot be used.
    """
    from pytest_gpucluster import profile
    from pytest_gpucluster.plain import folders as places

    for folder in folders:
        if not folder.is_dir():
            raise CliError(f"no such folder: --profiles {str(folder)!r}")
    here = Path.cwd()
    named = [Path(part) for part in os.environ.get("GPUCLUSTER_PROFILES", "").split(os.pathsep) if part]
    search = tuple(dict.fromkeys([*folders, *named, *places.upwards(here, places.root_of(here))]))
    try:
        return profile.load(name, search, os.environ, (), overrides, option="--set")
    except profile.ProfileError as error:
        first, *others = str(error).splitlines() if error.others else [str(error)]
        if error.where == "--cluster":
            first = f"{flag}{first.removeprefix('--cluster')}"
        raise CliError(first, others=others) from None


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it is not one."""
    from pytest_gpucluster.plain import plurals

    return plurals.count(count, noun)


def say(text: str = "") -> None:
    """Write a line to standard output; characters that would steer a terminal are written as escapes."""
    _write(visible.text(text))


def say_json(value: Any, indent: int | None = 1) -> None:
    """Write plain data as JSON."""
    ascii_ = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    _write(visible.json_text(json.dumps(value, indent=indent, ensure_ascii=ascii_, default=str)))


def _write(text: str) -> None:
    """Write a line; what the encoding of the terminal does not have is written as escapes."""
    try:
        sys.stdout.write(f"{text}\n")
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(f"{text.encode(encoding, 'backslashreplace').decode(encoding)}\n")


def say_table(rows: Iterable[Sequence[str]]) -> None:
    """Write rows in columns; the last column is as long as it is."""
    table = [list(row) for row in rows]
    if not table:
        return
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]) - 1)]
    for row in table:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
        say("  ".join([*cells, row[-1]]).rstrip())
