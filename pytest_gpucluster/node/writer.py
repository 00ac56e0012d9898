"""Writing to the API server: the status of one pod, and events."""

import asyncio
import itertools
import logging
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import aiohttp

from pytest_gpucluster.node.api import RETRY_FIRST, RETRY_LIMIT, Api, ApiError
from pytest_gpucluster.plain.times import format_time, now

log = logging.getLogger(__name__)

Object = dict[str, Any]


def pod_path(pod: Object) -> str:
    """Return the path of a pod on the API server."""
    meta = pod["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"


class StatusWriter:
    """Keeps the status of one pod on the server equal to the newest one wanted here.

    Requests are sent one after the other; what changes while one is under way is sent together in the next. So a
    pod that changes fast costs few requests, and its last status always arrives.
    """

    def __init__(self, api: Api, pod: Object) -> None:
        """Bind the writer to one pod by its uid."""
        self._api = api
        self._path = pod_path(pod) + "/status"
        self._uid = pod["metadata"]["uid"]
        self._wanted: Object | None = None
        self._sent: Object | None = None
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.gone = False

    def want(self, status: Object) -> None:
        """Ask for this status to be written."""
        newest = self._sent if self._wanted is None else self._wanted
        if not self.gone and status != newest:
            self._wanted = status
            self._idle.clear()
            self._changed.set()

    async def flush(self) -> None:
        """Return once the newest wanted status has arrived, or the pod is gone."""
        await self._idle.wait()

    async def run(self) -> None:
        """Send until cancelled or the pod is gone."""
        delay = RETRY_FIRST
        while not self.gone:
            await self._changed.wait()
            self._changed.clear()
            status, self._wanted, before = self._wanted, None, self._sent
            self._sent = status or before
            if status is not None and not await self._send(status):
                self._wanted, self._sent = self._wanted or status, before
                self._changed.set()
                await asyncio.sleep(delay)
                delay = min(delay * 2, RETRY_LIMIT)
                continue
            delay = RETRY_FIRST
            if self._wanted is None or self.gone:
                self._idle.set()

    async def _send(self, status: Object) -> bool:
        try:
            await self._api.patch(self._path, {"metadata": {"uid": self._uid}, "status": status})
        except ApiError as error:
            if error.code in (404, 409):  # deleted, or another pod of the same name
                self.gone = True
                return True
            log.warning("status of %s: %s", self._path, error)
            return 400 <= error.code < 500
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            log.warning("status of %s: %s", self._path, error)
            return False
        return True


class EventWriter:
    """Posts events about pods without making anybody wait for them."""

    def __init__(self, api: Api) -> None:
        """Start with nothing posted."""
        self._api = api
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = itertools.count(1)

    def post(self, pod: Object, kind: str, reason: str, message: str, field: str = "") -> None:
        """Post one event.

        Args:
            pod: The pod it is about.
            kind: Normal or Warning.
            reason: Short reason.
            message: The text.
            field: Part of the pod it is about, such as `spec.containers{main}`.
        """
        meta = pod["metadata"]
        moment = now()
        involved = {
            "kind": "Pod", "apiVersion": "v1", "namespace": meta["namespace"], "name": meta["name"],
            "uid": meta["uid"], "resourceVersion": meta.get("resourceVersion", ""),
        }  # fmt: skip
        if field:
            involved["fieldPath"] = field
        node = pod["spec"].get("nodeName", "")
        suffix = f"{int(moment.timestamp() * 1e6) + next(self._count):x}"
        event = {
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": f"{meta['name']}.{suffix}", "namespace": meta["namespace"]},
            "involvedObject": involved, "type": kind, "reason": reason, "message": message, "count": 1,
            "firstTimestamp": format_time(moment), "lastTimestamp": format_time(moment), "eventTime": None,
            "source": {"component": "kubelet", "host": node},
            "reportingComponent": "kubelet", "reportingInstance": node,
        }  # fmt: skip
        task = asyncio.create_task(self._send(f"/api/v1/namespaces/{meta['namespace']}/events", event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, path: str, event: Object) -> None:
        try:
            await self._api.create(path, event)
        except (TimeoutError, ApiError, aiohttp.ClientError, OSError) as error:
            log.info("event %s about %s: %s", event["reason"], event["involvedObject"]["name"], error)


async def is_going(api: Api, pod: Object) -> bool:
    """Report whether the API server has the pod no more, or as one that is being deleted.

    Raises:
        ApiError: the pod cannot be read.
    """
    try:
        meta = (await api.get(pod_path(pod)))["metadata"]
    except ApiError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            return True
        raise
    return meta["uid"] != pod["metadata"]["uid"] or bool(meta.get("deletionTimestamp"))


async def delete_pod(api: Api, pod: Object) -> None:
    """Remove a pod that has ended from the API server, unless it is gone already or is another one now."""
    body = {
        "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
        "preconditions": {"uid": pod["metadata"]["uid"]},
    }  # fmt: skip
    delay = RETRY_FIRST
    while True:
        try:
            with suppress(ApiError):
                await api.request("DELETE", pod_path(pod), body=body)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            log.info("deleting %s: %s", pod_path(pod), error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, RETRY_LIMIT)
        else:
            return
