"""Opening and closing a queue, so that nobody does it twice and nothing is called open that was not seen open."""

import contextlib
import dataclasses
import secrets
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.acceptance import queues
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.kube import errors, kinds, objects
from pytest_gpucluster.plain import names
from pytest_gpucluster.promotion import following, records
from pytest_gpucluster.promotion.targets import OPEN, Gone, Refused, Target, refusal
from pytest_gpucluster.scenario import volcano_commands

Obj = dict[str, Any]

ROOT = "root"
"""Volcano's queue above all others."""
HOLD = "Hold"
_SHUT = ("Closed", "Closing")
_OPENS, _CLOSES = "OpenQueue", "CloseQueue"
"""Actions of a Command."""
_TRIES = 5
"""How often a queue is read again whose status was written while we wrote to it."""
COMMAND = kinds.KindInfo(volcano_commands.API, "Command", "commands")


@dataclasses.dataclass(frozen=True)
class Switch:
    """What opens and closes queues.

    Attributes:
        api: the verbs.
        record: on what.
        seconds: how long a state is waited for.
        namespace: where Commands of Volcano are made.
        token: of the name of the Command that opens: who closes after us finds one that was not obeyed yet.
    """

    api: objects.Objects
    record: records.Record
    seconds: float
    namespace: str = "default"
    token: str = dataclasses.field(default_factory=lambda: secrets.token_hex(3))

    def open(self, target: Target, state: str = records.OPENED) -> Target:
        """Open a queue and return it as it was seen open.

        Args:
            target: the queue as it was when it was decided to open it.
            state: what is noted once it is open: `open`, or `on trial`.

        Raises:
            Refused: it did not open, or somebody else promotes it; it is as closed as it was.
            EnvironmentProblem: the API server does not answer.
        """
        # On trial from the first moment: whenever it is cut off, it is known that nothing was shown in it.
        target = self._begin(target, state if state in records.CLAIMS else records.OPENING)
        try:
            opened = self._lift(target) if target.kind == queues.KUEUE else self._command(target)
        except BaseException:  # an interrupt too: nobody else has to wait for us
            self.note(target, records.FAILED)
            raise
        return self.note(opened, state)

    def hold(self, target: Target) -> Target:
        """Close a queue and return it as it was seen closed: what runs stays, nothing is admitted.

        Raises:
            Refused: it did not close.
            EnvironmentProblem: the API server does not answer.
        """
        if target.kind == queues.KUEUE:
            held = target if target.policy else self._stop(target, HOLD)
        elif fields.text(target.obj, "status", "state") in _SHUT:
            held = target
        else:
            held = self._obey(target, _CLOSES, _SHUT)
        return self.note(held, records.HELD)

    def note(self, target: Target, state: str) -> Target:
        """Say on the queue in what state this promotion has left it."""
        claims = state in records.CLAIMS
        return self._note(
            target, self.record.claim(state, records.ALIVE) if claims else self.record.done(state)
        )

    def confirm(self, target: Target, record: records.Record) -> Target:
        """Say on a queue that passed its trial that it is open, and on what.

        Raises:
            Refused: it was closed, edited or promoted by others while it was tried out.
        """
        now = self._same(target)
        if not now.open:
            raise Refused(f"{now.title} is {now.state}: it was closed while it was tried out")
        return self._write(now, {"metadata": {"annotations": record.done(records.OPENED)}})

    def renew(self, target: Target) -> None:
        """Renew our claim on a queue, if it is ours still."""
        now = target.as_now(self.api.get(target.info, target.name))
        if records.claimed_by(now, self.record):
            state = str(now.annotations[records.STATE])
            claim = self.record.claim(state, records.ALIVE)
            self._write(now, {"metadata": {"annotations": {records.LAPSES: claim[records.LAPSES]}}})

    def close_after(self, target: Target) -> Target | None:
        """Close a queue on which this promotion was cut off; None if its claim is not on it, and nothing is done.

        Raises:
            Refused: it did not close.
            EnvironmentProblem: the API server does not answer.
        """
        try:
            now = target.as_now(self.api.get(target.info, target.name))
        except errors.ApiError as error:
            if error.code == 404:
                return None
            raise
        if not records.claimed_by(now, self.record):
            return None
        if now.kind == queues.KUEUE:
            held, before = self.hold(now), target.queue.generation
            # Lifted and stopped, and nothing else: it is still the queue that was to be opened.
            if before is not None and held.queue.generation == before + 2:
                return self._account(held, before, before + 2, records.unchanged(target))
            return held
        # What was given and not obeyed would open it later; what was taken is followed by a Command that closes.
        with contextlib.suppress(errors.ApiError):
            self.api.delete(COMMAND, self._command_name(now, _OPENS), self.namespace)
        return self.note(self._obey(now, _CLOSES, _SHUT), records.HELD)

    # -- one at a time -----------------------------------------------------------------------------------------------

    def _begin(self, target: Target, state: str) -> Target:
        """Say on the queue that we are at work, unless somebody else is."""
        busy = records.another(target)
        if busy:
            raise Refused(f"{target.title} is being promoted by {busy}: not opened by this promotion")
        seconds = records.ALIVE if state == records.TRIAL else 2 * self.seconds
        return self._write(target, {"metadata": {"annotations": self.record.claim(state, seconds)}})

    def _note(self, target: Target, annotations: Mapping[str, str | None]) -> Target:
        """Write annotations whatever else was written meanwhile; a queue that is gone has none."""
        with contextlib.suppress(errors.GpuClusterError):
            change = {"metadata": {"annotations": annotations, "uid": target.queue.uid}}
            return target.as_now(self.api.patch(target.info, target.name, change))
        return target

    def _write(self, target: Target, change: Mapping[str, Any]) -> Target:
        """Change a queue that nobody else promotes or edits; controllers may write its status meanwhile."""
        for _ in range(_TRIES):
            versioned = {
                **change,
                "metadata": {**change.get("metadata", {}), "resourceVersion": target.version},
            }
            try:
                return target.as_now(self.api.patch(target.info, target.name, versioned))
            except errors.ApiError as error:
                if error.code != 409:
                    raise _gone_or(error, target, "cannot be written") from error
            target = self._same(target)
        raise Refused(f"{target.title} was written by others again and again: try later")

    def _same(self, target: Target) -> Target:
        """Return the queue as it is now, if nobody promoted or edited it.

        Raises:
            Refused: somebody did.
        """
        try:
            now = target.as_now(self.api.get(target.info, target.name))
        except errors.ApiError as error:
            raise _gone_or(error, target, "cannot be read") from error
        if records.last(now) != records.last(target):
            who = now.annotations.get(records.BY) or "somebody"
            raise Refused(
                f"{target.title} is being promoted by {who}: it was first, and this promotion does nothing"
            )
        changed = queues.changed(target.queue, now.queue)
        if changed or now.policy != target.policy:
            raise Refused(
                f"{target.title} was changed while it was being promoted: {changed or 'its stopPolicy'}"
            )
        return now

    # -- Volcano -----------------------------------------------------------------------------------------------------

    def _command(self, target: Target) -> Target:
        if target.open:
            return target
        shut = self._closed_above(target)
        if shut:
            raise Refused(f"{target.title} stays closed: its parent {shut}; open that one first")
        return self._obey(target, _OPENS, (OPEN,))

    def _obey(self, target: Target, action: str, wanted: tuple[str, ...]) -> Target:
        """Give a command and see it obeyed."""

        def obeyed(queue: Obj) -> bool:
            return fields.text(queue, "status", "state") in wanted

        with following.Following(self.api, target.info, target.name) as seen:
            # Listed before the Command exists: that it vanishes in the middle is seen too.
            if not seen.until(lambda _: True, self.seconds):
                raise Gone(target)
            made = self._give(target, action)
            try:
                if seen.until(obeyed, self.seconds) and seen.obj is not None:
                    return target.as_now(seen.obj)
            except BaseException:
                # Nobody is left to see it obeyed.
                self._take_back(target, made, action)
                raise
            if seen.gone:
                raise Gone(target)
            taken = self._take_back(target, made, action)
            if seen.obj is not None and obeyed(seen.obj):
                return target.as_now(seen.obj)
        state = target.as_now(seen.obj or target.obj).state
        if not taken:
            raise Refused(
                f"{target.title} is {state}: no controller took the Command {action} in {self.seconds:g} s; does "
                "vc-controller-manager run?"
            )
        shut = self._closed_above(target)
        why = f": its parent {shut}; open that one first" if shut else f" after {self.seconds:g} s"
        raise Refused(f"{target.title} is still {state}{why}")

    def _give(self, target: Target, action: str) -> str:
        uid = target.queue.uid
        body = volcano_commands.manifest(
            action, (target.info.api_version, target.kind, target.name, uid), {names.LABEL_ROLE: "promotion"}
        )
        body["metadata"]["name"] = self._command_name(target, action)
        try:
            made = self.api.create(body, namespace=self.namespace)
        except errors.ApiError as error:
            raise refusal(error, f"{target.title} stays {target.state}: no Command can be made") from error
        return str(made["metadata"]["name"])

    def _command_name(self, target: Target, action: str) -> str:
        """Return the name of a Command; it may be asked to close again and again, each by a Command of its own."""
        token = self.token if action == _OPENS else secrets.token_hex(3)
        return names.safe_name(target.name[:40], action, token)

    def _take_back(self, target: Target, command: str, action: str) -> bool:
        """Take a command back that was not obeyed in time; report whether a controller had taken it already.

        One that was taken may still be obeyed, later: then it is to be closed again.
        """
        with contextlib.suppress(errors.GpuClusterError):
            self.api.get(COMMAND, command, self.namespace)
            self.api.delete(COMMAND, command, self.namespace)
            return False
        if action == _OPENS:
            with contextlib.suppress(errors.GpuClusterError):
                self._give(target, _CLOSES)
        return True

    def _closed_above(self, target: Target) -> str:
        """Return the nearest closed queue above one of Volcano, with its state; "" if all are open."""
        parent, seen = fields.text(target.obj, "spec", "parent"), {target.name}
        while parent and parent != ROOT and parent not in seen:
            seen.add(parent)
            try:
                obj = self.api.get(target.info, parent)
            except errors.ApiError:
                return ""  # not there, or not to be read: the state of the queue itself decides
            state = fields.text(obj, "status", "state")
            if state in _SHUT:
                return f"{target.kind}/{parent} is {state}"
            parent = fields.text(obj, "spec", "parent")
        return ""

    # -- Kueue -------------------------------------------------------------------------------------------------------

    def _lift(self, target: Target) -> Target:
        """Lift the stop policy of a ClusterQueue and see it Active; put it back if it does not become so."""
        if target.open:
            return target
        try:
            return self._stop(target, "None")
        except BaseException:
            # Whatever went wrong, an interrupt too: it is not left half open.
            self._put_back(target)
            raise

    def _put_back(self, target: Target) -> None:
        """Give a ClusterQueue its stop policy again."""
        change = {"metadata": {"uid": target.queue.uid}, "spec": {queues.SWITCH: target.policy or HOLD}}
        with contextlib.suppress(errors.GpuClusterError):
            now = target.as_now(self.api.patch(target.info, target.name, change))
            before, after = target.queue.generation, now.queue.generation
            # Lifted and put back, and nothing else: it is still the queue that was to be opened.
            if before is not None and after == before + 2:
                self._account(now, before, after, records.unchanged(target))

    def _account(self, target: Target, before: int, after: int, known: range) -> Target:
        """Note that only promotions wrote to a queue between two generations."""
        first = known[0] if before in known else before
        return self._note(target, {records.UNCHANGED: f"{first}-{after}"})

    def _stop(self, target: Target, policy: str) -> Target:
        """Set a stop policy, keep account of the generations, and see the condition that follows."""
        before, known = target.queue.generation, records.unchanged(target)
        written = self._write(target, {"spec": {queues.SWITCH: policy}})
        after = written.queue.generation
        opens = policy == "None"

        def told(queue: Obj) -> bool:
            """Report whether Kueue has said what it makes of this generation."""
            active = fields.condition(queue, "Active")
            seen = fields.number(active, "observedGeneration")
            return bool(active) and (seen is None or after is None or seen >= after)

        def reached(queue: Obj) -> bool:
            return told(queue) and target.as_now(queue).open is opens

        with following.Following(self.api, target.info, target.name) as seen:
            fits = seen.until(reached, self.seconds)
            if seen.gone:
                raise Gone(target)
            now = target.as_now(seen.obj or written.obj)
        if not fits:
            said = "" if told(now.obj) else "; does kueue-controller-manager run?"
            raise Refused(
                f"{target.title} did not become {'Active' if opens else 'inactive'} in {self.seconds:g} s: it is "
                f"{now.state}{said}"
            )
        if before is not None and after is not None:
            return self._account(now, before, after, known)
        return now


def _gone_or(error: errors.ApiError, target: Target, what: str) -> Refused:
    if error.code == 404:
        return Gone(target)
    return refusal(error, f"{target.title} {what}")
