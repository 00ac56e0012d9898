"""What the gatekeeper does: one loop that is woken by watches, by readings of the gate and by the expiry of evidence.

It never writes Ready in advance: a Workload that holds quota and asks is answered by a reading that began after it
asked. It never touches what is admitted.
"""

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

from pytest_gpucluster.kube import errors, objects, watch
from pytest_gpucluster.plain import times
from pytest_gpucluster.promotion.gatekeeper import forms, reading

Obj = dict[str, Any]

LOOK = 15.0
"""Seconds between two looks at the folder of runs, which tells nobody when a run is added."""
RESTS = 0.2
"""Seconds in which a watch mostly tells what another one wrote."""
TRY_AGAIN = 5.0
"""Seconds before a reading or a request that failed is tried again."""


class Keeper:
    """Controls one AdmissionCheck (`kube.watch.Sink`).

    Attributes:
        problem: why it cannot go on, "" while it can.
        beat: when the loop last turned, by the monotonic clock.
    """

    def __init__(
        self,
        api: objects.Objects,
        check: str,
        read: Callable[[], reading.Reading],
        stamp: Callable[[], object] = lambda: None,
        *,
        now: Callable[[], datetime] = times.now,
        say: Callable[[str], None] = lambda _: None,
        look: float = LOOK,
    ) -> None:
        """Take what it works with.

        Args:
            api: the verbs.
            check: name of the AdmissionCheck.
            read: reads the gate.
            stamp: what changes when the folder of runs does.
            now: the time.
            say: told in one line what was done.
            look: seconds between two looks at the folder of runs.
        """
        self.problem = ""
        self.beat = api.connection.clock.monotonic()
        self._api = api
        self._clock = api.connection.clock
        self._name = check
        self._read, self._stamp, self._now, self._say, self._look = read, stamp, now, say, look
        self._woken = threading.Condition()
        self._stop = False
        self._check: Obj | None = None
        self._nodes: dict[str, Any] = {}
        self._waiting: dict[tuple[str, str], tuple[Obj, int]] = {}
        self._stale: dict[tuple[str, str], Obj] = {}
        self._wanted = 1
        self._known = 0
        self._least = 0
        self._reading = False
        self._gate = reading.NOTHING
        self._told = ""
        self._seen_stamp = stamp()
        self._looked = self.beat
        targets = [watch.Target(forms.CHECK, fields=f"metadata.name={check}"), watch.Target(forms.WORKLOAD)]
        targets.append(watch.Target(objects.NODE))
        self._watches = [watch.KindWatch(api, target, self, lean=forms.lean) for target in targets]
        self._synced: set[str] = set()

    @property
    def settled(self) -> bool:
        """Report whether all is known and the gate was read."""
        return self._known > 0 and len(self._synced) == len(self._watches)

    def stop(self) -> None:
        """Ask the loop to end."""
        with self._woken:
            self._stop = True
            self._woken.notify_all()

    def run(self) -> None:
        """Work until told to stop, or until it cannot go on (`problem`)."""
        for each in self._watches:
            each.start()
        try:
            while not self._stop and not self.problem:
                self._turn()
        finally:
            for each in self._watches:
                each.stop()
            for each in self._watches:
                each.join()

    # -- one turn ----------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        with self._woken:
            self.beat = self._clock.monotonic()
            self._look_at_runs()
            self._begin_reading()
            act = self._next_act()
            if act is None:
                self._clock.wait(self._woken, self._patience())
                return
        try:
            act()
        except errors.ApiError as error:
            # Somebody wrote in between: the watch tells, and it is looked at again.
            if error.code in (404, 409):
                with self._woken:
                    self._clock.wait(self._woken, RESTS)
            else:
                self._trouble(error)
        except errors.GpuClusterError as error:
            self._trouble(error)

    def _trouble(self, error: errors.GpuClusterError) -> None:
        """Try again later what may pass; what is not permitted ends it."""
        line = " ".join(str(error).split())
        self._say(line)
        with self._woken:
            if isinstance(error, errors.ApiError) and error.denied:
                self.problem = f"{line}; grant it, see fixtures/manifests/gatekeeper.yaml"
                return
            self._clock.wait(self._woken, TRY_AGAIN)

    def _patience(self) -> float:
        """Return how long nothing can happen by itself, in seconds."""
        left = self._looked + self._look - self._clock.monotonic()
        if self._gate.open and self._gate.until is not None:
            left = min(left, (self._gate.until - self._now()).total_seconds())
        return max(0.01, left)

    def _look_at_runs(self) -> None:
        if self._clock.monotonic() < self._looked + self._look:
            return
        self._looked = self._clock.monotonic()
        seen = self._stamp()
        # What could not be read, a cluster among it, may be readable now.
        if seen != self._seen_stamp or self._gate.reason == reading.UNREADABLE:
            self._seen_stamp = seen
            self._wanted += 1

    def _begin_reading(self) -> None:
        if self._reading or self._wanted <= self._known:
            return
        self._reading = True
        threading.Thread(target=self._one_reading, args=(self._wanted,), name="gate", daemon=True).start()

    def _one_reading(self, begun: int) -> None:
        try:
            found = self._read()
        except Exception as error:  # noqa: BLE001 (whatever it was: the gate was not read, so it is closed)
            text = " ".join(f"{type(error).__name__}: {error}".split())
            found = reading.Reading(open=False, until=None, reason=reading.UNREADABLE, message=text)
        with self._woken:
            self._reading, self._known, self._gate = False, begun, found
            self._woken.notify_all()

    def _next_act(self) -> Callable[[], None] | None:
        """Return what is to be done next; held while it is chosen."""
        now = self._now()
        gate = self._gate.at(now)
        if gate is not self._gate:
            # Closed at once; whether there is a newer run is read afterwards.
            self._gate = gate
            self._wanted += 1
        check = self._check
        if check is None:
            return None
        if self._known:
            change = forms.activity(
                check, gate.reason, gate.message, times.format_time(now), active=gate.open
            )
            if change is not None:
                return lambda: self._activate(change)
            self._tell(gate)
        for place, workload in self._stale.items():
            return lambda: self._answer(place, workload, forms.PENDING, "asked again with its next quota")
        for place, (workload, asked) in self._waiting.items():
            if max(asked, self._least) <= self._known:
                state = forms.READY if gate.open else forms.RETRY
                return lambda: self._answer(place, workload, state, gate.message)
        return None

    def _activate(self, change: Obj) -> None:
        written = self._api.patch(forms.CHECK, self._name, change, subresource="status")
        with self._woken:
            if self._check is not None:
                self._check = written

    def _tell(self, gate: reading.Reading) -> None:
        """Say what the check says, once."""
        line = f"{'active' if gate.open else 'not active'}: {gate.reason}: {gate.message}"
        if line != self._told:
            self._told = line
            self._say(line)

    def _answer(self, place: tuple[str, str], workload: Obj, state: str, message: str) -> None:
        """Write the state of a check, unless the evidence became too old on the way."""
        with self._woken:
            if state == forms.READY and not self._gate.at(self._now()).open:
                return
        change = forms.answered(workload, self._name, state, message, times.format_time(self._now()))
        try:
            self._api.patch(forms.WORKLOAD, place[1], change, place[0], subresource="status")
        except errors.ApiError as error:
            if error.code in (404, 409):
                self._forget(place, workload)  # the watch tells what it is now
            raise
        self._forget(place, workload)
        self._say(f"workload {'/'.join(place)}: {state}")

    def _forget(self, place: tuple[str, str], workload: Obj) -> None:
        """Forget a Workload that was answered, unless it has asked again meanwhile."""
        with self._woken:
            if self._waiting.get(place, (None, 0))[0] is workload:
                del self._waiting[place]
            if self._stale.get(place) is workload:
                del self._stale[place]

    # -- what the watches tell -----------------------------------------------------------------------------------------

    def line(self, change: str, kind: str, obj: Obj, t: float) -> None:  # noqa: ARG002
        """Take a change."""
        gone = change == "DELETED"
        with self._woken:
            if kind == forms.CHECK.key:
                self._take_check(None if gone else obj)
            elif kind == objects.NODE.key:
                self._take_node(obj, gone=gone)
            else:
                self._take_workload(obj, gone=gone)
            self._woken.notify_all()

    def _take_check(self, check: Obj | None) -> None:
        owner = str(((check or {}).get("spec") or {}).get("controllerName") or "")
        self._check = check if owner == forms.CONTROLLER else None
        if check is not None and owner != forms.CONTROLLER:
            self._say(
                f"AdmissionCheck {self._name} is of the controller {owner!r}, not of {forms.CONTROLLER!r}"
            )

    def _take_node(self, node: Obj, *, gone: bool) -> None:
        name, before = node["metadata"]["name"], self._nodes.get(node["metadata"]["name"])
        now = None if gone else node["seen"]
        if now == before:
            return
        if gone:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = now
        if objects.NODE.key in self._synced:
            # Nothing more is admitted on what was read of the nodes as they were.
            self._wanted += 1
            self._least = self._wanted

    def _take_workload(self, workload: Obj, *, gone: bool) -> None:
        metadata = workload["metadata"]
        place = (str(metadata.get("namespace") or ""), str(metadata["name"]))
        before = self._waiting.pop(place, None)
        self._stale.pop(place, None)
        if gone:
            return
        if forms.ready_in_advance(workload, self._name):
            self._stale[place] = workload
        elif forms.asks(workload, self._name):
            same = before is not None and before[0]["metadata"].get("uid") == metadata.get("uid")
            if before is None or not same:
                self._wanted += 1
            self._waiting[place] = (workload, before[1] if before is not None and same else self._wanted)

    def in_sync(self, kind: str, t: float, how: str) -> None:  # noqa: ARG002
        """Note that a kind is known."""
        with self._woken:
            self._synced.add(kind)
            self._woken.notify_all()

    def out_of_sync(self, kind: str, t: float, why: str) -> None:
        """A watch that resumes tells what was missed."""

    def ended(self, kind: str, error: errors.GpuClusterError) -> None:  # noqa: ARG002
        """It may not be watched: nothing can be vouched for any longer."""
        with self._woken:
            self.problem = " ".join(str(error).split())
            self._woken.notify_all()
