"""The `gpucluster` command: one module a command, imported when that command is asked for."""

import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import pytest_gpucluster
from pytest_gpucluster.cli.common import UNWRITTEN, USAGE, CliError, choose

COMMANDS = {
    "discover": "write a first profile from what can be seen of a cluster",
    "describe": "show requirements, planted defects or a cluster's profile",
    "judge": "decide a requirement on evidence from any source",
    "diagnose": "find what holds a job up, and how to fix it",
    "record": "run one scenario on a cluster and keep a recording of it",
    "report": "write the reports of a run from its journal",
    "verify": "decide every verdict of a run again from its files",
    "gate": "decide whether recorded runs open the gate of a policy",
    "promote": "open a queue behind the gate of a policy, or close it again",
    "gatekeeper": "keep an AdmissionCheck of Kueue active only while evidence vouches",
    "floors": "propose floors for a profile from the reports of accepted runs",
    "cleanup": "remove what killed runs left on a cluster",
    "rbac": "print the smallest roles that a selection needs",
    "serve": "start the embedded cluster for kubectl",
}
"""Command -> what it does; the module of the same name has `parser()` and `run(arguments) -> exit status`."""

WITHIN = {"judge nccl": "decide on the logs of a job's ranks alone"}
"""The same of commands within commands; the module is called as both words."""

HELP = """usage: gpucluster COMMAND [...]

commands:
{commands}

gpucluster COMMAND --help gives more. Run the suite itself with pytest: pytest --cluster=NAME
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    A mistake of the user is one line on standard error (several of a profile one each) and status 2, never a traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # names from a cluster may hold what no terminal takes
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in {"-h", "--help", "help"}:
        sys.stdout.write(_help())
        return 0 if words else USAGE
    if words[0] == "--version":
        sys.stdout.write(f"gpucluster {pytest_gpucluster.__version__}\n")
        return 0
    try:
        name = " ".join(words[:2])
        if name not in WITHIN:
            name = choose(words[0], COMMANDS, "command")
        status: int = module_of(name).run(words[name.count(" ") + 1 :])
        sys.stdout.flush()
    except CliError as error:
        from pytest_gpucluster.plain import redact, visible

        for mistake in (str(error), *error.others):
            line = visible.text(redact.clean(" ".join(mistake.split())))
            sys.stderr.write(f"gpucluster: {line}\n")
        return error.status
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: nobody is left to be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        from pytest_gpucluster.plain import full_disk

        if error.filename is not None or error.errno not in full_disk.REFUSED:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"gpucluster: what was found could not be written: {os.strerror(error.errno)}\n")
        return UNWRITTEN
    except KeyboardInterrupt:
        return 130
    return status


def module_of(command: str) -> Any:
    """Return the module of a command, such as `judge nccl`."""
    return importlib.import_module(f"pytest_gpucluster.cli.{command.replace(' ', '_')}")


def _help() -> str:
    width = max(map(len, COMMANDS)) + 2
    return HELP.format(commands="\n".join(f"  {name:<{width}}{what}" for name, what in COMMANDS.items()))
