"""`gpucluster promote`: opens a queue if recorded runs open the gate of a policy, and closes it again."""

import dataclasses
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.cli import common, gate
from pytest_gpucluster.cli.promote_account import Account

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
    3: "a run cannot be read or was tampered with, or the output could not be written",
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
    parser.add_argument(
        "--if-cut-off",
        action="store_true",
        help="with --hold: close it only if a trial of it was cut off and nobody has closed it",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    parser.add_argument(
        "--by", metavar="TEXT", help="who or what promotes (the pipeline's user and job, or user and machine)"
    )
    parser.add_argument("--json", action="store_true", help="print what was done, and the decision, as JSON")
    parser.add_argument(
        "--markdown", action="store_true", help="print what was done, and the decision, as Markdown"
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
        account = Account(targets.find(api, options.queue, loaded.profile), options)
        with account.printed():
            act = _hold if options.hold else _open
            act(options, loaded.profile, api, account)
    except targets.NotFoundError as error:
        raise common.CliError(f"promote: {error}") from None
    except errors.GpuClusterError as error:
        raise common.CliError(f"promote: {error}", status=1) from None
    return 0 if account.done else 1


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
    if options.if_cut_off and not options.hold:
        raise common.CliError("promote: --if-cut-off only goes with --hold")
    if options.json and options.markdown:
        raise common.CliError("promote: --json and --markdown: choose one")
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


def _switch(api: "Objects", record: "Record", profile: "Profile") -> "Switch":
    from pytest_gpucluster.promotion import switching

    return switching.Switch(api, record, profile.budgets["start"], profile.namespace or "default")


def _hold(options: Any, profile: "Profile", api: "Objects", account: "Account") -> None:
    from pytest_gpucluster.promotion import records

    target, record = account.target, _record(options, None)
    account.by = record.by
    cut_off = records.cut_off(target)
    if options.if_cut_off and not cut_off:
        account.ends(
            "as it was",
            f"{target.title} is {target.state}; no trial of it was cut off, nothing is to be closed",
        )
        return
    if options.dry_run:
        account.ends("would be held", f"{target.title} is {target.state}; it would be closed")
        return
    account.now = held = _switch(api, record, profile).hold(target)
    what = f"closed by {record.by}; what runs stays"
    account.event(api, "Held", f"{what}; a trial by {cut_off} was cut off" if cut_off else what)
    was = "already" if held.state == target.state else f"now (was {target.state})"
    account.ends("held", f"{held.title} is {held.state} {was}, held by {record.by}")


def _open(options: Any, profile: "Profile", api: "Objects", account: "Account") -> None:
    from pytest_gpucluster.acceptance import text

    _close_cut_off(options, profile, api, account)
    target = account.now
    decision, runs = gate.considered(options, "promote")
    account.decides(decision)
    stays = f"{target.title} is {target.state} and stays so"
    if not decision.open:
        account.refused(api, f"the gate of {decision.policy.name} is {text.answer(decision)}")
        hint = "; `promote --hold` closes it" if target.open else ""
        account.ends("refused", f"{stays}: the gate is closed{hint}")
        return
    why = _changed(decision, runs, target)
    if why:
        account.refused(api, why)
        raise common.CliError(f"promote: {stays}: {why}", status=1)
    record = _record(options, decision)
    account.by = record.by
    if options.dry_run:
        word = "would stay open" if target.open else "would be opened"
        trial = f", and stay so if {' and '.join(decision.pending)} pass in it" if decision.pending else ""
        account.ends("would be opened", f"{target.title} is {target.state}; it {word} by {record.by}{trial}")
        return
    switch = _switch(api, record, profile)
    if decision.pending:
        opened = _on_trial(options, profile, decision, switch, account)
        if opened is None:
            return
    else:
        opened = switch.open(target)
    account.now = opened
    named = ", ".join(record.runs)
    account.event(api, "Promoted", f"opened by {record.by} on policy {record.policy}, runs {named}")
    was = "already" if target.open else f"now (was {target.state})"
    account.ends("opened", f"{opened.title} is {opened.state} {was}, promoted by {record.by}")


def _close_cut_off(options: Any, profile: "Profile", api: "Objects", account: "Account") -> None:
    """Close a queue first whose trial was cut off together with its guard: nothing vouches for it."""
    from pytest_gpucluster.promotion import records

    target = account.target
    cut_off = records.cut_off(target)
    if not cut_off or options.dry_run:
        return
    account.now = _switch(api, _record(options, None), profile).hold(target)
    account.event(api, "Held", f"closed: the trial by {cut_off} was cut off", warning=True)
    account.say(
        f"queue       {target.title} was {target.state}, and is closed first: the trial by {cut_off} was cut off"
    )


def _on_trial(
    options: Any, profile: "Profile", decision: "Decision", switch: "Switch", account: "Account"
) -> "Target | None":
    """Open a held queue, run in it what is pending, and close it again unless all of it passes; None if it is closed.

    Whatever ends it, an interrupt too: a queue that was closed before does not stay open without a green trial. If this
    process is killed, its guard closes the queue.
    """
    from pytest_gpucluster.promotion import guard, records, trial

    folder = options.runs[0].resolve().parent
    rows, target = tuple(decision.pending), account.now
    reached = profile.connection
    if reached is None:  # `_connect` has refused it
        raise common.CliError(f"promote: the profile {profile.name} has no `connection`")
    account.say(f"trial       {target.title} is opened, and {' and '.join(rows)} run in it")
    words = trial.words(rows, options.cluster, folder, options.profiles, options.set)
    opened = confirmed = None
    with guard.Guard(switch, target, reached.kubeconfig, reached.context) as watching:
        try:
            opened = switch.open(target, records.TRIAL)
            found = trial.run(words, watching.follow)
            account.tried(rows, found)
            if found.green:
                record = dataclasses.replace(switch.record, runs={**switch.record.runs, **found.runs})
                confirmed = switch.confirm(opened, record)
        finally:
            if opened is not None and confirmed is None:
                account.now = held = _close_again(switch, opened)
                why = f"{' or '.join(rows)} did not pass in it"
                account.event(switch.api, "PromotionRefused", why, warning=True)
                account.ends(
                    "refused", f"{held.title} is {held.state} again: {' and '.join(rows)} did not pass in it"
                )
    return confirmed


def _close_again(switch: "Switch", opened: "Target") -> "Target":
    """Close a queue that did not pass its trial; say loudly if that is not possible."""
    from pytest_gpucluster.kube import errors
    from pytest_gpucluster.promotion import targets

    try:
        return switch.hold(opened)
    except targets.Gone:
        raise
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
