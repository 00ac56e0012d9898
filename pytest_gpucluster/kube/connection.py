"""A connection to one API server: configuration, authentication, transport, counting."""

import dataclasses
import json
import pathlib
import threading
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlencode

from pytest_gpucluster.kube import bounded, errors, retry, translate
from pytest_gpucluster.kube import clock as clocks
from pytest_gpucluster.kube import counter as counters
from pytest_gpucluster.kube.stream import Stream

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


@dataclasses.dataclass(frozen=True)
class Ask:
    """One request.

    Attributes:
        verb: Kubernetes verb (get, list, watch, create, delete, deletecollection, patch, log), for counting.
        kind: kind key, with `/status` and the like for sub-resources.
        method: HTTP method.
        path: path below the server's URL.
        about: what is asked for, for texts: `create Pod/x in ns`.
        query: query parameters.
        body: JSON body.
        content_type: of the body.
        idempotent: whether it may be repeated after it may have reached the server.
        read: seconds for an answer, None for the connection's.
        most: bytes of a text that are read; what comes after them is left out. None for an answer that must be whole.
    """

    verb: str
    kind: str
    method: str
    path: str
    about: str
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: object | None = None
    content_type: str = JSON
    idempotent: bool = True
    read: float | None = None
    most: int | None = None


class Connection:
    """One API server, reached with the operator's credentials.

    Every thread may use it. Requests are counted in `counter`; the official client authenticates and owns the pool.
    """

    def __init__(
        self,
        configuration: Any,
        *,
        clock: clocks.Clock | None = None,
        limits: retry.Limits | None = None,
    ) -> None:
        """Take a `kubernetes.client.Configuration`; `open` and `at` make one."""
        from kubernetes import client  # noqa: PLC0415 (half a second; only those who connect pay)

        configuration.retries = False  # repeats are ours: counted and bounded
        configuration.connection_pool_maxsize = 32  # a watch per kind holds a connection each
        self._configuration = configuration
        self._client = client.ApiClient(configuration)
        self._auth = threading.Lock()
        self.host = str(configuration.host).rstrip("/")
        self.clock: clocks.Clock = clock or clocks.RealClock()
        self.limits = limits or retry.Limits()
        self.counter = counters.RequestCounter()

    @classmethod
    def open(
        cls,
        kubeconfig: str | pathlib.Path,
        context: str | None = None,
        *,
        clock: clocks.Clock | None = None,
        limits: retry.Limits | None = None,
    ) -> Self:
        """Return a connection by a kubeconfig file and context (None: the file's current one).

        No request is made.

        Raises:
            EnvironmentProblem: no such file, unreadable, no such context; one line that names it.
        """
        return cls(configuration(kubeconfig, context), clock=clock, limits=limits)

    @classmethod
    def at(cls, url: str, *, clock: clocks.Clock | None = None, limits: retry.Limits | None = None) -> Self:
        """Return a connection to an API server that asks for no credentials."""
        from kubernetes import client  # noqa: PLC0415

        configuration = client.Configuration()
        configuration.host = url
        return cls(configuration, clock=clock, limits=limits)

    def call(self, ask: Ask) -> dict[str, Any]:
        """Return the answer as a dict, after repeats where they are safe.

        Raises:
            ApiError: an error status.
            Unreachable: no answer.
        """
        data = self._repeated(ask)
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            raise errors.EnvironmentProblem(
                f"{self.host} answered {ask.about} with something that is no JSON; is it a Kubernetes API server?"
            ) from None
        if not isinstance(answer, dict):
            raise errors.EnvironmentProblem(f"{self.host} answered {ask.about} with no JSON object")
        return answer

    def text(self, ask: Ask) -> str:
        """Return the answer as text, such as a log; errors as in `call`."""
        return self._repeated(ask).decode("utf-8", "replace")

    def stream(self, ask: Ask, *, read: float) -> Stream:
        """Open a streaming answer that may be silent for `read` seconds; counted, never repeated.

        Raises:
            ApiError, Unreachable: as in `call`, for the opening only.
        """
        response = self._send(ask, read=read)
        if response.status >= 400:
            data = self._body(response, ask, read)
            raise translate.api_error(response.status, response.headers, data, ask.about)
        return Stream(response, lambda e: translate.unreachable(e, self.host, ask.about, read))

    def close(self) -> None:
        """Close idle connections of the pool."""
        self._client.rest_client.pool_manager.clear()

    def _repeated(self, ask: Ask) -> bytes:
        def send() -> bytes:
            read = ask.read or self.limits.read
            response = self._send(ask, read=read)
            data = self._body(response, ask, read)
            if response.status >= 400:
                raise translate.api_error(response.status, response.headers, data, ask.about)
            return data

        return retry.call(
            send, idempotent=ask.idempotent, limits=self.limits, clock=self.clock, counter=self.counter
        )

    def _body(self, response: Any, ask: Ask, read: float) -> bytes:
        """Return the body of a response; of one that says an error, and of a text, only the beginning."""
        import urllib3  # noqa: PLC0415

        failed = response.status >= 400
        most = bounded.MOST_OF_AN_ERROR if failed else ask.most or bounded.MOST
        try:
            return bounded.read(response, self.clock.monotonic, most=most, cut=failed or ask.most is not None)
        except bounded.Endless as error:
            raise errors.EnvironmentProblem(f"{self.host}: the answer to {ask.about} {error}") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise translate.unreachable(error, self.host, ask.about, read) from error

    def _send(self, ask: Ask, *, read: float) -> Any:
        import urllib3  # noqa: PLC0415

        self.counter.add(ask.verb, ask.kind)
        body = None if ask.body is None else json.dumps(ask.body, separators=(",", ":")).encode()
        headers = {"Accept": f"{JSON}, */*", "User-Agent": "pytest-gpucluster", **self._credentials()}
        if body is not None:
            headers["Content-Type"] = ask.content_type
        try:
            return self._client.rest_client.pool_manager.request(
                ask.method,
                self.host + ask.path + (f"?{urlencode(ask.query)}" if ask.query else ""),
                body=body,
                headers=headers,
                timeout=urllib3.Timeout(connect=self.limits.connect, read=read),
                preload_content=False,
                retries=False,
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise translate.unreachable(error, self.host, ask.about, read) from error

    def _credentials(self) -> dict[str, str]:
        """Return the authentication headers; an exec plugin may run here, one thread at a time."""
        with self._auth:
            settings = self._configuration.auth_settings()
        return {
            part["key"]: str(part["value"])
            for part in settings.values()
            if part["in"] == "header" and part["value"]
        }


def configuration(kubeconfig: str | pathlib.Path, context: str | None = None) -> Any:
    """Return the `kubernetes.client.Configuration` of a kubeconfig file and context (None: the file's current one).

    Raises:
        EnvironmentProblem: no such file, unreadable, no such context; one line that names it.
    """
    path = pathlib.Path(kubeconfig)
    if not path.is_file():
        raise errors.EnvironmentProblem(f"kubeconfig {path} does not exist")
    return _load(path, context)


def _load(path: pathlib.Path, context: str | None) -> Any:
    import yaml  # noqa: PLC0415
    from kubernetes import client, config  # noqa: PLC0415

    configuration = client.Configuration()
    try:
        config.load_kube_config(
            config_file=str(path), context=context, client_configuration=configuration, persist_config=False
        )
    except config.ConfigException as error:
        words = " ".join(str(error).split())
        raise errors.EnvironmentProblem(f"kubeconfig {path}: {words}{_contexts(path, context)}") from error
    except (yaml.YAMLError, OSError, TypeError, KeyError, AttributeError) as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise errors.EnvironmentProblem(f"kubeconfig {path} cannot be read: {words}") from error
    token_file = _token_file(path, context)
    if token_file is not None:
        configuration.refresh_api_key_hook = lambda held: _read_token(token_file, held)
    return configuration


def _token_file(path: pathlib.Path, context: str | None) -> pathlib.Path | None:
    """Return the file from which the user of a context takes its token, such as that of a pod's service account."""
    import yaml  # noqa: PLC0415

    parsed = yaml.safe_load(path.read_text(encoding="utf-8"))
    wanted = context or parsed.get("current-context")
    users = [c["context"].get("user") for c in parsed.get("contexts") or [] if c.get("name") == wanted]
    told = [
        user["user"].get("tokenFile")
        for user in parsed.get("users") or []
        if user.get("name") in users and isinstance(user.get("user"), dict)
    ]
    return path.parent / told[0] if told and told[0] else None


def _read_token(path: pathlib.Path, configuration: Any) -> None:
    """Read a token again: kubelets renew that of a service account before it expires, and a run may outlast it."""
    try:
        bearer = f"Bearer {path.read_text(encoding='utf-8').strip()}"
        # Under which name the client keeps it differs between its versions.
        configuration.api_key.update(dict.fromkeys([*configuration.api_key, "authorization"], bearer))
    except OSError as error:
        raise errors.EnvironmentProblem(f"token file {path} cannot be read: {error.strerror}") from None


def _contexts(path: pathlib.Path, context: str | None) -> str:
    """Return which contexts there are when the one asked for is not."""
    import yaml  # noqa: PLC0415

    parsed = yaml.safe_load(path.read_text(encoding="utf-8"))
    listed = (parsed.get("contexts") if isinstance(parsed, dict) else None) or []
    found = sorted(str(c.get("name")) for c in listed if isinstance(c, dict))
    if context is None or context in found:
        return ""
    return f" (contexts of the file: {', '.join(found) or 'none'})"
