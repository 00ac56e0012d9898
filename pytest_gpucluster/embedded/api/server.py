"""The HTTP server: from a request to the function that answers it."""

import sys
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable

from aiohttp import web

from pytest_gpucluster.embedded import defect_table, errors
from pytest_gpucluster.embedded.access import rbac, reviews
from pytest_gpucluster.embedded.access.attributes import attributes_of
from pytest_gpucluster.embedded.access.users import Tokens, User
from pytest_gpucluster.embedded.api import discovery, openapi, subresources, verbs
from pytest_gpucluster.embedded.api.bodies import answer, read_body, refuse
from pytest_gpucluster.embedded.api.faults import Faults
from pytest_gpucluster.embedded.api.logs import serve_log
from pytest_gpucluster.embedded.api.paths import Target, parse_path, template_of
from pytest_gpucluster.embedded.api.proxy import serve_proxy
from pytest_gpucluster.embedded.api.rendering import Rendering, rendering_of
from pytest_gpucluster.embedded.api.watch import WatchOptions, hang, refuse_watch, serve_watch
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.runtime import Runtime

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

BOOKMARK_SECONDS = 10.0
"""Time between two bookmarks of a watch; kube-apiserver sends one about each minute."""

DEFAULT_VERSION = "v1.37.0"
USER = "gpucluster.user"
"""Where a request carries who asks."""
ACCOUNTS = "system:serviceaccount:"
"""How the user names of service accounts begin."""
EVERYONE = User("system:anonymous")

MAX_BODY = 3 * 1024 * 1024
"""Bytes of a request body, as kube-apiserver allows."""


class ApiServer:
    """Serves a store over HTTP."""

    def __init__(self, runtime: Runtime) -> None:
        """Serve the store of a runtime; its configuration says version, faults and bookmark time."""
        config = runtime.config
        self.store = runtime.store
        self.version = str(config.get("version") or DEFAULT_VERSION)
        self.faults = Faults.of(config.get("faults"))
        self.bookmark_seconds = float(config.get("bookmark_seconds") or BOOKMARK_SECONDS)
        self.tokens = Tokens.of(config.get("tokens"))
        self._has = runtime.has
        self._planted = runtime.defects
        # A cluster of a run is never started so: its defects are those that the run names.
        self._switchable = bool(config.get("switchable"))
        self.pages = verbs.Pages()
        self.requests: Counter[str] = Counter()

    def app(self) -> web.Application:
        """Return the application, for as many listeners as wanted."""
        app = web.Application(client_max_size=MAX_BODY, middlewares=[self._guard, self._authorize])
        app.router.add_route("*", "/{tail:.*}", self._handle)
        return app

    def close(self) -> None:
        """End every watch, so that the listeners can close."""
        self.store.close()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer refusals with a Status, and what went wrong here with 500 and a trace on stderr."""
        try:
            return await handler(request)
        except ApiError as error:
            return refuse(error)
        except web.HTTPException as error:
            return refuse(ApiError(error.status, error.reason.replace(" ", ""), error.text or error.reason))
        except (ConnectionError, RecursionError):
            raise
        except Exception as error:  # noqa: BLE001  # the server must outlive a bug in one answer
            traceback.print_exc(file=sys.stderr)
            return refuse(ApiError(500, "InternalError", f"Internal error occurred: {error!r}"))

    @web.middleware
    async def _authorize(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Look up who asks, and refuse what no rule allows; without tokens in the configuration all is allowed."""
        if self.tokens:
            user = self.tokens.user_of(request.headers.get("Authorization"), self.store)
            request[USER] = user
            asked = attributes_of(request.method, request.path, request.query)
            rbac.authorize(self.store, user, asked)
            of_pod = user.name.startswith(ACCOUNTS)
            if of_pod and asked.resource == "nodes" and self._has("access.nodes-hidden"):
                raise rbac.forbidden(user, asked)
        return await handler(request)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        root = path.strip("/").split("/")[0]
        if root == "debug":
            return await self._debug(request)
        target = self._target(path)
        watching = request.query.get("watch") in ("1", "true") and request.method == "GET"
        known = template_of(target, path) if target else path
        self.requests[f"{request.method} {known}{'?watch' if watching else ''}"] += 1
        if root in ("healthz", "readyz", "livez"):
            return web.Response(text="ok")
        # Faults are for those who come over TCP; the nodes, which use the socket, have no part in the trouble.
        if not _over_socket(request):
            if self.faults.hangs(path):
                await hang(request)
            self.faults.strike()
        if request.path.startswith(reviews.PREFIX) and request.method == "POST":
            return await self._review(request)
        if target is None:
            return self._serve_static(request, root)
        if watching:
            return await self._watch(request, target)
        return await self._object(request, target)

    def _target(self, path: str) -> Target | None:
        parts = path.strip("/").split("/")
        if path.startswith(reviews.PREFIX):
            return None
        minimum = {"api": 3, "apis": 4}.get(parts[0])
        if minimum is None or len(parts) < minimum:
            return None
        return parse_path(self.store.table, path)

    def _serve_static(self, request: web.Request, root: str) -> web.StreamResponse:
        path, table = request.path, self.store.table
        if root == "version":
            return answer(discovery.version_info(self.version))
        if root == "openapi":
            return answer(openapi.document(table, path))
        if root in ("api", "apis"):
            return discovery.serve_discovery(table, path, request.headers.get("Accept", ""))
        if root == "":
            return answer({"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]})
        raise ApiError(404, "NotFound", "the server could not find the requested resource")

    async def _review(self, request: web.Request) -> web.StreamResponse:
        body, _ = await read_body(request)
        resource = request.path.removeprefix(reviews.PREFIX)
        user = request.get(USER, EVERYONE)
        asked = body if isinstance(body, dict) else {}
        return answer(reviews.review(self.store, user, resource, asked, allow_all=not self.tokens), 201)

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        drop = None if _over_socket(request) else self.faults.watch_drop_seconds
        options = WatchOptions(self.bookmark_seconds, drop)
        try:
            return await serve_watch(
                request,
                self.store,
                target.row,
                namespace=target.namespace,
                name=target.name,
                options=options,
                rendering=self._rendering(request),
            )
        except ApiError as error:
            if error.code == 410:
                return await refuse_watch(request, error)
            raise

    def _rendering(self, request: web.Request) -> Rendering:
        accept = request.headers.get("Accept", "")
        return rendering_of(accept, request.query.get("includeObject", ""), self.store.clock)

    async def _object(self, request: web.Request, target: Target) -> web.StreamResponse:
        store, form = self.store, self._rendering(request)
        match request.method, target.name is not None, target.subresource:
            case "GET", True, "log":
                return await serve_log(request, store, verbs.need(store, target))
            case "GET", True, "proxy":
                return await serve_proxy(verbs.need(store, target), target.rest)
            case "GET", True, None | "status":
                return answer(form.one(target.row, verbs.need(store, target)))
            case "GET", False, None:
                return answer(verbs.list_objects(store, self.pages, target, request, form))
            case "POST", False, None:
                return await verbs.create(store, target, request, form)
            case "POST", True, str():
                return await subresources.post(store, self.tokens, target, request)
            case "PUT", True, "finalize":
                return await subresources.finalize(store, target, request)
            case "PUT", True, None | "status":
                return await verbs.replace(store, target, request, form)
            case "PATCH", True, None | "status":
                return await verbs.patch(store, target, request, form)
            case "DELETE", True, None:
                return await verbs.delete(store, target, request, form)
            case "DELETE", False, None:
                return await verbs.delete_collection(store, target, request, form)
        raise ApiError(
            405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
        )

    async def _debug(self, request: web.Request) -> web.StreamResponse:
        """Answer what tests ask of the server itself: request counts, compaction, faults, defects."""
        match request.method, request.path.removeprefix("/debug/"):
            case "GET", "requests":
                return answer(dict(sorted(self.requests.items())))
            case "POST", "compact":
                self.store.compact()
                self.pages.expire()
                return answer({"resourceVersion": str(self.store.version)})
            case "PUT", "faults":
                body, _ = await read_body(request)
                try:
                    self.faults = Faults.of(body)
                except ValueError as error:
                    raise errors.bad_request(str(error)) from None
                return answer({})
            case "PUT", "defects" if self._switchable:
                body, _ = await read_body(request)
                asked = body.get("defects") if isinstance(body, dict) else None
                try:
                    return answer({"defects": defect_table.switch(self._planted, asked)})
                except ValueError as error:
                    raise errors.bad_request(str(error)) from None
        raise ApiError(404, "NotFound", "the server could not find the requested resource")


def _over_socket(request: web.Request) -> bool:
    """Report whether a request came over the Unix socket."""
    transport = request.transport
    return transport is not None and isinstance(transport.get_extra_info("sockname"), (str, bytes))
