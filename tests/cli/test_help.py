"""What each command says of itself: its arguments and its exit statuses, on the terminal and for the reference."""

import pytest

from pytest_gpucluster import cli
from pytest_gpucluster.cli import common, diagnose, judge, judge_nccl
from pytest_gpucluster.report import verify

COMMANDS = [*cli.COMMANDS, *cli.WITHIN]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_tells_every_argument_and_every_exit_status(command: str) -> None:
    """The reference is made of the same list."""
    parser = cli.module_of(command).parser()
    told = " ".join(parser.format_help().split())
    for argument in parser.arguments():
        assert argument.help, f"{command}: {argument.names} says nothing"
        assert argument.names.strip("[]").split(" ")[0].rstrip(",") in told
    assert common.USAGE in parser.exits
    for code, meaning in parser.exits.items():
        assert f" {code} {meaning}" in told


@pytest.mark.parametrize(
    ("module", "ends"),
    [
        (judge, judge.STATUS.values()),
        (judge_nccl, judge_nccl.STATUS.values()),
        (diagnose, diagnose.STATUS.values()),
        (cli.module_of("verify"), (verify.YES, verify.NO, verify.OPEN_MODULE, verify.TAMPERED)),
    ],
    ids=["judge", "judge nccl", "diagnose", "verify"],
)
def test_every_status_that_a_command_can_end_with_is_told(module: object, ends: list[int]) -> None:
    """None is missing, and none is told that it never has."""
    assert set(module.EXITS) == {*ends, common.USAGE}  # type: ignore[attr-defined]
