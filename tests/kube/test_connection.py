"""Requests: errors in one line, repeats where they are safe, counting."""

import http.server
import json
import pathlib
import socket
import ssl
import threading

import pytest
import trustme

from pytest_gpucluster.kube import connection, errors, objects, retry

from . import fake_api
from .conftest import QUICK

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}


def kubeconfig(path: pathlib.Path, server: str, **cluster: object) -> pathlib.Path:
    """Write a kubeconfig with one context and a token."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    path.write_text(json.dumps(config))
    return path


def one_line(error: BaseException) -> str:
    """Return the text of an error after checking that it is fit to print."""
    text = str(error)
    assert "\n" not in text
    assert "object at 0x" not in text
    return text


def test_missing_kubeconfig_is_one_line(tmp_path):
    """A kubeconfig that is not there is named in one line."""
    with pytest.raises(errors.EnvironmentProblem) as caught:
        connection.Connection.open(tmp_path / "none")
    assert one_line(caught.value) == f"kubeconfig {tmp_path / 'none'} does not exist"


def test_unknown_context_names_those_there_are(tmp_path):
    """A context that the file lacks is named together with those that it has."""
    path = kubeconfig(tmp_path / "kc", "http://127.0.0.1:1")
    with pytest.raises(errors.EnvironmentProblem) as caught:
        connection.Connection.open(path, "two")
    assert "two" in one_line(caught.value)
    assert "contexts of the file: one" in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", "just words", "", "apiVersion: v1\nkind: Config\n"])
def test_broken_kubeconfig_is_one_line(tmp_path, text):
    """A kubeconfig that is no kubeconfig is an environment problem in one line."""
    path = tmp_path / "kc"
    path.write_text(text)
    with pytest.raises(errors.EnvironmentProblem) as caught:
        connection.Connection.open(path)
    assert str(path) in one_line(caught.value)


def test_token_of_the_kubeconfig_is_sent(tmp_path, fake):
    """The credentials of the kubeconfig go with each request."""
    opened = connection.Connection.open(kubeconfig(tmp_path / "kc", fake.url), limits=QUICK)
    objects.Objects(opened).list(objects.POD, "ns")
    opened.close()
    assert fake.tokens == ["Bearer secret"]


def test_refused_connection_is_one_line(tmp_path):
    """A port where nobody listens is an environment problem that names the server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    api = objects.Objects(connection.Connection.at(url, limits=QUICK))
    with pytest.raises(errors.Unreachable) as caught:
        api.list(objects.POD, "ns")
    assert one_line(caught.value) == f"cannot connect to {url}: connection refused"
    assert api.connection.counter.total == QUICK.attempts


def test_unresolvable_host_is_one_line():
    """A host name that does not resolve is said so, once, without repeats."""
    api = objects.Objects(connection.Connection.at("http://no-such-host.invalid", limits=QUICK))
    with pytest.raises(errors.Unreachable, match=r"cannot resolve the host name of http://no-such-host"):
        api.list(objects.POD, "ns")


def test_silent_server_is_given_up(fake, api):
    """A server that accepts and says nothing is given up after the read timeout, in one line, without repeats."""
    fake.fail(fake_api.anything, -1)
    with pytest.raises(errors.Unreachable) as caught:
        api.list(objects.POD, "ns")
    assert one_line(caught.value) == f"{fake.url} gave no answer within 0.3 s (list pods in ns)"
    assert api.connection.counter.total == 1


def test_untrusted_certificate_is_one_line(tmp_path):
    """A certificate that nobody vouches for is a TLS problem in one line that says what to check."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                try:
                    context.wrap_socket(client, server_side=True).close()
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        opened = connection.Connection.open(kubeconfig(tmp_path / "kc", url), limits=QUICK)
        with pytest.raises(errors.Unreachable) as caught:
            objects.Objects(opened).list(objects.POD, "ns")
        thread.join(5)
    text = one_line(caught.value)
    assert text.startswith(f"TLS to {url} failed: ")
    assert "certificate" in text.partition("failed: ")[2].partition("(")[0]
    assert "certificate-authority" in text


def test_api_error_carries_the_status(fake, api):
    """An error answer becomes an ApiError with code, reason, message and request as fields."""
    body = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "spec is wrong"}
    fake.fail(fake_api.anything, 422, body=json.dumps(body).encode())
    with pytest.raises(errors.ApiError) as caught:
        api.create(POD, namespace="ns")
    error = caught.value
    assert (error.code, error.reason, error.message) == (422, "Invalid", "spec is wrong")
    assert error.body["kind"] == "Status"
    assert one_line(error) == "create Pod/x in ns: 422 Invalid: spec is wrong"


def test_answer_that_is_no_json_is_one_line(fake, api):
    """A proxy's HTML page is no API answer, and the error says so."""
    fake.fail(fake_api.anything, 200, body=b"<html>hello</html>")
    with pytest.raises(errors.EnvironmentProblem, match="is it a Kubernetes API server"):
        api.list(objects.POD, "ns")


def test_retry_after_is_honoured_for_every_verb(fake, api):
    """429 did nothing, so even a create is repeated, and the repeats are counted."""
    fake.fail(fake_api.anything, 429, times=2, headers={"Retry-After": "0"})
    api.create(POD, namespace="ns")
    assert api.connection.counter.by == {("create", "Pod"): 3}
    assert api.connection.counter.summary()["retries"] == {"429": 2}


def test_server_error_repeats_only_what_may_be_repeated(fake, api):
    """A get is repeated after 500 and a reset; a create, which may have happened, is not."""
    fake.fail(fake_api.anything, 500)
    fake.fail(fake_api.anything, 0)
    api.get(objects.POD, "x", "ns")
    assert api.connection.counter.summary()["retries"] == {"500": 1, "reset": 1}
    fake.fail(fake_api.anything, 500)
    with pytest.raises(errors.ApiError, match="500"):
        api.create(POD, namespace="ns")
    fake.fail(fake_api.anything, 0)
    with pytest.raises(errors.Unreachable, match="broke"):
        api.create(POD, namespace="ns")


def test_repeats_are_bounded(fake, api):
    """A server that always answers 503 is asked `attempts` times."""
    fake.fail(fake_api.anything, 503, times=99)
    with pytest.raises(errors.ApiError, match="503"):
        api.list(objects.POD, "ns")
    assert api.connection.counter.total == QUICK.attempts


def test_long_retry_after_is_cut():
    """A server that asks for an hour gets the longest pause, and patience ends with the total."""
    from pytest_gpucluster.kube import clock, counter

    fake_clock = clock.FakeClock()
    calls = []

    def send() -> None:
        calls.append(fake_clock.monotonic())
        raise errors.ApiError(429, "TooManyRequests", "", retry_after=3600)

    limits = retry.Limits(attempts=99, total=30, longest_pause=10)
    with pytest.raises(errors.ApiError):
        retry.call(send, idempotent=True, limits=limits, clock=fake_clock, counter=counter.RequestCounter())
    assert calls == [0, 10, 20, 30]


def test_delete_of_what_is_gone_is_a_success(fake, api):
    """Deleting an object that is not there does not raise."""
    fake.fail(fake_api.anything, 404)
    api.delete(objects.POD, "x", "ns")


def test_verbs_send_what_the_api_wants(fake, api):
    """Each verb uses its method, path, content and options, and is counted under its name."""
    api.patch(objects.NODE, "n", {"status": {"capacity": {"a/b": None}}}, subresource="status")
    api.delete(objects.POD, "x", "ns", uid="u1", grace=1)
    api.delete_collection(objects.POD, "ns", labels="a=b")
    api.logs("x", "ns", container="c", tail=5)
    api.create(POD, namespace="ns", dry_run=True)
    sent = [(m, p) for m, p, _ in fake.answers]
    assert sent == [
        ("PATCH", "/api/v1/nodes/n/status"),
        ("DELETE", "/api/v1/namespaces/ns/pods/x"),
        ("DELETE", "/api/v1/namespaces/ns/pods?labelSelector=a%3Db"),
        ("GET", "/api/v1/namespaces/ns/pods/x/log?container=c&tailLines=5"),
        ("POST", "/api/v1/namespaces/ns/pods?dryRun=All"),
    ]
    options = json.loads(fake.answers[1][2])
    assert options["preconditions"] == {"uid": "u1"}
    assert options["gracePeriodSeconds"] == 1
    assert options["propagationPolicy"] == "Background"
    assert set(api.connection.counter.by) == {
        ("patch", "Node/status"), ("delete", "Pod"), ("deletecollection", "Pod"), ("log", "Pod"), ("create", "Pod"),
    }  # fmt: skip


def test_known_kinds_cost_no_discovery_and_unknown_ones_one_request(fake, api):
    """The table knows the usual kinds; another kind is looked up once and remembered."""
    assert api.info("batch.volcano.sh/v1alpha1", "Job").path("ns") == (
        "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs"
    )
    assert api.connection.counter.total == 0
    rows = [
        {"name": "widgets/status", "kind": "Widget"},
        {"name": "widgets", "kind": "Widget", "namespaced": True},
    ]
    fake.fail(fake_api.anything, 200, body=json.dumps({"resources": rows}).encode())
    for _ in range(2):
        assert api.info("x.io/v1", "Widget").path("ns", "w") == "/apis/x.io/v1/namespaces/ns/widgets/w"
    assert api.connection.counter.total == 1


# -- credentials that are not in the file ----------------------------------------------------------------------------


class _Seen(http.server.BaseHTTPRequestHandler):
    """Answers anything and keeps what was asked, and by whom."""

    def do_GET(self):
        """Answer with an empty object."""
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *arguments):
        """Say nothing."""


@pytest.fixture
def seen():
    """A server that keeps (path, Authorization) of what it was asked."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Seen)
    server.seen = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


def _with_user(path, server, user):
    config = json.loads(kubeconfig(path, server).read_text())
    config["users"][0]["user"] = user
    path.write_text(json.dumps(config))
    return path


ASK = connection.Ask("get", "x", "GET", "/version", "ask")


def test_a_token_file_is_read_again(seen, tmp_path):
    """In a pod the service account's token is renewed on disk; a run that outlasts one goes on with the next."""
    (tmp_path / "token").write_text("first\n")
    path = _with_user(tmp_path / "kc", f"http://127.0.0.1:{seen.server_port}", {"tokenFile": "token"})
    api = connection.Connection.open(path)
    api.call(ASK)
    (tmp_path / "token").write_text("second\n")
    api.call(ASK)
    assert [token for _, token in seen.seen] == ["Bearer first", "Bearer second"]
    (tmp_path / "token").unlink()
    with pytest.raises(errors.EnvironmentProblem, match=r"token file .* cannot be read: No such file"):
        api.call(ASK)


def test_an_exec_plugin_gives_the_token(seen, tmp_path):
    """Managed clusters hand out tokens by a program that the kubeconfig names."""
    program = tmp_path / "credentials"
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "of-exec"},
    }
    program.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    program.chmod(0o755)
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never",
        }
    }  # fmt: skip
    path = _with_user(tmp_path / "kc", f"http://127.0.0.1:{seen.server_port}", user)
    connection.Connection.open(path).call(ASK)
    assert seen.seen == [("/version", "Bearer of-exec")]


def test_a_proxy_of_the_kubeconfig_is_used(seen, tmp_path):
    """`proxy-url` of a cluster: the request goes there, for the server's own URL."""
    path = kubeconfig(
        tmp_path / "kc", "http://cluster.invalid:80", **{"proxy-url": f"http://127.0.0.1:{seen.server_port}"}
    )
    connection.Connection.open(path).call(ASK)
    assert [asked for asked, _ in seen.seen] == ["http://cluster.invalid:80/version"]


def test_a_proxy_of_the_environment_is_used(seen, tmp_path, monkeypatch):
    """HTTP_PROXY and HTTPS_PROXY as everywhere, and NO_PROXY over them."""
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{seen.server_port}")
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    path = kubeconfig(tmp_path / "kc", "http://cluster.invalid:80")
    connection.Connection.open(path).call(ASK)
    assert [asked for asked, _ in seen.seen] == ["http://cluster.invalid:80/version"]
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    direct = kubeconfig(tmp_path / "kc", f"http://127.0.0.1:{seen.server_port}")
    connection.Connection.open(direct).call(ASK)
    assert seen.seen[-1][0] == "/version"
