"""`gpucluster promote`: opens a queue if recorded runs open the gate of a policy, and closes it again."""

import dataclasses
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.cli import common, gate

if TYPE_CHECKING:
    from types import FrameType

    from pytest_gpucluster.acceptance.decision import Decision
    from pytest_gpucluster.acceptance.runs import Run
    from pytest_gpucluster.kube.objects import Objects
    from pytest_gpucluster.profile import Profile
    from pytest_gpucluster.promotion.records import Record
    from pytest_gpucluster.promotion.switching import Switch
    from pytest_gpucluster.promotion.targets import Target

DESCRIPTION = """Open a queue if the evidence of runs, judged again, opens the gate of a policy: a Queue of Volcano by a
Command, a ClusterQueue of Kueue by lifting its stopPolicy. It counts as open when it was seen open. A queue that was
changed since the runs saw it is not opened. Who opened it and on what stands on the queue, and in an Event.
"""
EXITS = {
    0: "the queue is open now (with --hold: closed; with --dry-run: it would be)",
    1: "the gate is closed, or the queue was not opened; one line says why",
    common.USAGE: f"{common.MISTAKE[common.USAGE]}, or there is no such queue",
    3: "a run cannot be read or was tampered with",
}
EXAMPLES = """examples:
  gpucluster promote --queue training --run reports/latest --policy acceptance --for prod-a
  gpucluster promote --queue training --run reports/a --run reports/b --policy weekly --for prod-a --dry-run
  gpucluster promote --queue training --for prod-a --hold
"""


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("promote", DESCRIPTION, EXITS, EXAMPLES)
    parser.add_argument(
        "--queue",
        metavar="QUEUE",
        required=True,
        help="name of the queue; queue/NAME or clusterqueue/NAME if both schedulers have one",
    )
    parser.add_argument(
        "--run", metavar="RUN", dest="runs", type=Path, action="append", default=[], help="folder of a run"
    )
    gate.add_options(parser, required=False)
    parser.add_argument("--hold", action="store_true", help="close the queue instead: what runs stays")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    parser.add_argument(
        "--by", metavar="TEXT", help="who or what promotes (the pipeline's user and job, or user and machine)"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options = parser().parse_args(arguments)
    check(options)
    from pytest_gpucluster.kube import errors
    from pytest_gpucluster.promotion import targets

    # The end of a pipeline's job is an interrupt: what was begun is taken back.
    signal.signal(signal.SIGTERM, _interrupt)
    loaded = common.load_profile(options.cluster, options.profiles, options.set, flag="--for")
    api = _connect(loaded.profile)
    try:
        # First the cheap question: a mistake in the name need not wait until all runs are judged.
        target = targets.find(api, options.queue, loaded.profile)
        act = _hold if options.hold else _open
        return act(options, loaded.profile, api, target)
    except targets.NotFoundError as error:
        raise common.CliError(f"promote: {error}") from None
    except errors.GpuClusterError as error:
        raise common.CliError(f"promote: {error}", status=1) from None


def check(options: Any) -> None:
    """Check what the parser cannot: to open takes runs and a policy, to close takes neither."""
    missing = [flag for flag, value in (("--run", options.runs), ("--policy", options.policy)) if not value]
    if missing and not options.hold:
        raise common.CliError(
            f"promote: {' and '.join(missing)} missing: a queue is opened on runs and a policy"
        )
    if options.hold and len(missing) < 2:
        raise common.CliError(
            "promote: --hold closes a queue whatever runs say: leave --run and --policy out"
        )
    if options.offline:
        raise common.CliError("promote: --offline: a queue cannot be opened without its cluster")


def _connect(profile: "Profile") -> "Objects":
    from pytest_gpucluster.kube import connection, errors, objects

    if profile.connection is None:
        raise common.CliError(
            f"promote: the profile {profile.name} has no `connection`: its cluster ends with its run"
        )
    try:
        opened = connection.Connection.open(profile.connection.kubeconfig, profile.connection.context)
    except errors.EnvironmentProblem as error:
        raise common.CliError(f"promote: {error}") from None
    return objects.Objects(opened)


def _record(options: Any, decision: "Decision | None") -> "Record":
    from pytest_gpucluster.plain import times
    from pytest_gpucluster.promotion import records

    by = " ".join((options.by or records.promoter(os.environ)).split())
    if decision is None:
        return records.Record(by, "", {}, None, times.now())
    counted = {run: digest for run, digest in decision.runs.items() if run not in decision.ignored}
    return records.Record(by, decision.policy.name, counted, decision.until, decision.at)


def _hold(options: Any, profile: "Profile", api: "Objects", target: "Target") -> int:
    from pytest_gpucluster.promotion import switching

    if options.dry_run:
        common.say(f"queue       {target.title} is {target.state}; it would be closed")
        return 0
    record = _record(options, None)
    held = switching.Switch(api, record, profile.budgets["start"], profile.namespace or "default").hold(
        target
    )
    _tell(api, held, "Held", f"closed by {record.by}; what runs stays")
    was = "already" if held.state == target.state else f"now (was {target.state})"
    common.say(f"queue       {held.title} is {held.state} {was}, held by {record.by}")
    return 0


def _open(options: Any, profile: "Profile", api: "Objects", target: "Target") -> int:
    from pytest_gpucluster.acceptance import text
    from pytest_gpucluster.promotion import switching

    decision, runs = gate.considered(options, "promote")
    for line in text.lines(decision):
        common.say(line)
    stays = f"{target.title} is {target.state} and stays so"
    if not decision.open:
        if not options.dry_run:
            why = f"not opened: the gate of {decision.policy.name} is {text.answer(decision)}"
            _tell(api, target, "PromotionRefused", why, warning=True)
        hint = "; `promote --hold` closes it" if target.open else ""
        common.say(f"queue       {stays}: the gate is closed{hint}")
        return 1
    why = _changed(decision, runs, target)
    if why:
        if not options.dry_run:
            _tell(api, target, "PromotionRefused", f"not opened: {why}", warning=True)
        raise common.CliError(f"promote: {stays}: {why}", status=1)
    record = _record(options, decision)
    if options.dry_run:
        word = "would stay open" if target.open else "would be opened"
        trial = f", and stay so if {' and '.join(decision.pending)} pass in it" if decision.pending else ""
        common.say(f"queue       {target.title} is {target.state}; it {word} by {record.by}{trial}")
        return 0
    switch = switching.Switch(api, record, profile.budgets["start"], profile.namespace or "default")
    if decision.pending:
        opened = _on_trial(options, decision, switch, target)
        if opened is None:
            return 1
    else:
        opened = switch.open(target)
    named = ", ".join(record.runs)
    _tell(api, opened, "Promoted", f"opened by {record.by} on policy {record.policy}, runs {named}")
    was = "already" if target.open else f"now (was {target.state})"
    common.say(f"queue       {opened.title} is {opened.state} {was}, promoted by {record.by}")
    return 0


def _on_trial(options: Any, decision: "Decision", switch: "Switch", target: "Target") -> "Target | None":
    """Open a held queue, run in it what is pending, and close it again unless all of it passes; None if it is closed.

    Whatever ends it, an interrupt too: a queue that was closed before does not stay open without a green trial.
    """
    from pytest_gpucluster.promotion import records, trial

    folder = options.runs[0].resolve().parent
    rows = tuple(decision.pending)
    common.say(f"trial       {target.title} is opened, and {' and '.join(rows)} run in it")
    opened, green = None, False
    try:
        opened = switch.open(target, records.TRIAL)
        found = trial.run(trial.words(rows, options.cluster, folder, options.profiles, options.set))
        green = found.green
        for line in found.said:
            common.say(f"  {line}")
    finally:
        if opened is not None and not green:
            held = _close_again(switch, opened)
            _tell(
                switch.api, held, "PromotionRefused", f"{' or '.join(rows)} did not pass in it", warning=True
            )
            common.say(
                f"queue       {held.title} is {held.state} again: {' and '.join(rows)} did not pass in it"
            )
    if not green:
        return None
    with_trial = dataclasses.replace(switch.record, runs={**switch.record.runs, **found.runs})
    return dataclasses.replace(switch, record=with_trial).note(opened, records.OPENED)


def _close_again(switch: "Switch", opened: "Target") -> "Target":
    """Close a queue that did not pass its trial; say loudly if that is not possible."""
    from pytest_gpucluster.kube import errors

    try:
        return switch.hold(opened)
    except errors.GpuClusterError as error:
        raise common.CliError(
            f"promote: {opened.title} did not pass its trial, is STILL OPEN and cannot be closed: {error}; close it "
            "with --hold as soon as the cluster answers",
            status=1,
        ) from None


def _interrupt(_number: int, _frame: "FrameType | None") -> None:
    raise KeyboardInterrupt


def _changed(decision: "Decision", runs: Sequence["Run"], target: "Target") -> str:
    """Return why a queue is not the one that the runs saw, "" if it is.

    The newest run that counts and shows the queue tells.
    """
    from pytest_gpucluster.acceptance import queues
    from pytest_gpucluster.promotion import records

    counted = sorted((run for run in runs if run.id not in decision.ignored), key=lambda run: run.ended)
    for run in reversed(counted):
        seen = run.seen_queues.get(target.queue.place)
        if seen is not None:
            changed = queues.changed(seen, target.queue, records.unchanged(target))
            return f"it was changed since {run.id}: {changed}; run again" if changed else ""
    return (
        "no run shows it, so nobody knows what it was: the profile must name it (`queue`, or `kueue.cluster_queue`) "
        "and INV-005 must have run"
    )


def _tell(api: "Objects", target: "Target", reason: str, message: str, *, warning: bool = False) -> None:
    """Write an Event; that it cannot be written changes nothing in what was done."""
    from pytest_gpucluster.promotion import records

    problem = records.event(api, target, reason, message, warning=warning)
    if problem:
        common.say(f"note        no Event was written: {problem}")
