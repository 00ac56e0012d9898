"""Recording Events as the components of a cluster do: repeated ones are counted, floods are combined."""

import time
from collections.abc import Callable

from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.objects import Obj, name_of, namespace_of, uid_of, version_of
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.plain.times import format_time

COMBINE_AFTER = 10
"""Similar events (all but the message equal) after which client-go combines further ones into one."""

COMBINE_WITHIN = 600.0
"""Seconds within which events count as similar, as in client-go."""

SPAM_BURST = 25
"""Events about one object that client-go's recorder lets through before it slows to one in 300 s."""

_MANY = 4096


class Recorder:
    """Records events of one component.

    There are two shapes. The legacy one, of Volcano and the Job controller, counts repetitions in `count`
    and combines floods; the newer one, of kube-scheduler, has `eventTime` and a `series`.
    """

    def __init__(
        self,
        store: Store,
        component: str,
        legacy: bool,
        *,
        instance: str | None = None,
        burst: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Record for a component.

        Args:
            store: Where events are kept.
            component: Name of the reporting component.
            legacy: Which of the two shapes is written.
            instance: Reporting instance; by default as recorded (empty, or `<component>-plane`).
            burst: Writes about one object after which further ones are dropped, as client-go does after
                `SPAM_BURST`; None drops none, since a scheduler with short cycles would use it up at once.
            clock: Seconds that only grow.
        """
        self._store = store
        self._component = component
        self._legacy = legacy
        self._instance = instance if instance is not None else ("" if legacy else f"{component}-plane")
        self._burst = burst
        self._written: dict[str, int] = {}
        self._clock = clock
        self._seen: dict[tuple[str, ...], tuple[str, str]] = {}
        self._similar: dict[tuple[str, ...], tuple[set[str], float]] = {}

    def event(
        self, obj: Obj, event_type: str, reason: str, message: str, *, action: str | None = None
    ) -> Obj | None:
        """Record an event about an object.

        Args:
            obj: The object that it is about; needs kind, apiVersion and metadata.
            event_type: Normal or Warning.
            reason: One word in CamelCase.
            message: The text.
            action: What was attempted; only in the newer shape (default: the reason's usual one).

        Returns:
            The event as stored, or None where it was dropped or its namespace takes no more objects.
        """
        if self._burst is not None:
            written = self._written[uid_of(obj)] = self._written.get(uid_of(obj), 0) + 1
            if written > self._burst:
                return None
        combined = False
        if self._legacy:
            combined = self._floods(obj, event_type, reason, message)
            if combined:
                message = f"(combined from similar events): {message}"
        key = self._key(obj, event_type, reason, "" if combined else message)
        known = self._seen.get(key)
        if known is not None:
            counted = self._store.mutate("Event", known[0], known[1], lambda e: self._count(e, message))
            if counted is not None:
                return counted
        body = self._body(obj, event_type, reason, message, action, combined=combined)
        try:
            made = self._store.create("Event", body)
        except ApiError:
            return None  # the namespace is gone or going; real recorders drop such events too
        if len(self._seen) > _MANY:
            self._seen.clear()
        self._seen[key] = (namespace_of(made), name_of(made))
        return made

    def _key(self, obj: Obj, event_type: str, reason: str, message: str) -> tuple[str, ...]:
        return (obj["kind"], namespace_of(obj), name_of(obj), uid_of(obj), event_type, reason, message)

    def _floods(self, obj: Obj, event_type: str, reason: str, message: str) -> bool:
        key = self._key(obj, event_type, reason, "")
        messages, last = self._similar.get(key, (set(), 0.0))
        now = self._clock()
        if now - last > COMBINE_WITHIN:
            messages = set()
        messages.add(message)
        self._similar[key] = (messages, now)
        if len(messages) <= COMBINE_AFTER - 1:
            return False
        messages.discard(message)
        return True

    def _count(self, event: Obj, message: str) -> None:
        if self._legacy:
            event["count"] = int(event.get("count") or 1) + 1
            event["lastTimestamp"] = self._store.now()
            event["message"] = message
            return
        series = event.setdefault("series", {"count": 1})
        series["count"] += 1
        series["lastObservedTime"] = format_time(self._store.clock(), micro=True)

    def _body(
        self,
        obj: Obj,
        event_type: str,
        reason: str,
        message: str,
        action: str | None,
        *,
        combined: bool,
    ) -> Obj:
        about: Obj = {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "name": name_of(obj),
            "uid": uid_of(obj),
        }
        namespace = namespace_of(obj)
        if namespace:
            about["namespace"] = namespace
        if obj["metadata"].get("resourceVersion"):
            about["resourceVersion"] = str(version_of(obj))
        out: Obj = {
            "metadata": {
                "name": f"{name_of(obj)}.{time.time_ns():x}",
                "namespace": namespace or "default",
            },
            "involvedObject": about,
            "type": event_type,
            "reason": reason,
            "message": message,
            "reportingInstance": self._instance,
        }
        if self._legacy:
            stamp = self._store.now()
            return out | {
                "count": 1,
                "firstTimestamp": stamp,
                "lastTimestamp": stamp,
                "eventTime": None,
                "source": {"component": self._component},
                "reportingComponent": "" if combined else self._component,
            }
        return out | {
            "action": action or "Scheduling",
            "eventTime": format_time(self._store.clock(), micro=True),
            "firstTimestamp": None,
            "lastTimestamp": None,
            "source": {},
            "reportingComponent": self._component,
        }
