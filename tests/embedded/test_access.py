"""Tokens and RBAC: who asks, what rules allow, and the refusals in Kubernetes' words."""

import base64
import datetime as dt
import itertools
import json
import pathlib
import subprocess
import sys

import pytest
import yaml

from pytest_gpucluster.embedded.access.attributes import Attributes, attributes_of
from pytest_gpucluster.embedded.access.rbac import allows, forbidden
from pytest_gpucluster.embedded.access.users import TokenError, Tokens, User
from pytest_gpucluster.embedded.errors import ApiError
from tests.embedded.support import Api, cluster, control_plane, empty_store, pod, run, until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMIN, ALICE = "admin-token", "alice-token"


class As(Api):
    """A client with a token."""

    def __init__(self, url, token=""):
        """Talk to a URL as whoever the token says."""
        super().__init__(url)
        self.token = token

    def raw(self, method, path, body=None, headers=None):
        """Send with the token."""
        more = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return super().raw(method, path, body, {**(headers or {}), **more})


@pytest.fixture(scope="module")
def ready():
    """A control plane that enforces: an administrator, and alice with no rights."""
    tokens = [
        {"token": ADMIN, "user": "kubernetes-admin", "groups": ["system:masters"]},
        {"token": ALICE, "user": "alice", "groups": ["dev"]},
    ]
    with control_plane({"volcano": False, "tokens": tokens, "tls": True}) as said:
        yield said


@pytest.fixture
def url(ready):
    """Its URL."""
    return ready["url"]


@pytest.fixture
def admin(url):
    """The administrator."""
    return As(url, ADMIN)


@pytest.fixture
def alice(url):
    """A user whose rights the tests give."""
    return As(url, ALICE)


_NUMBERS = itertools.count()


@pytest.fixture
def grant(admin):
    """Return a function that grants rules until the test's end: in a namespace, or everywhere."""
    made = []

    def give(rules, namespace=None, subject=None, kind=None):
        name = f"g{next(_NUMBERS)}"
        role = kind or ("Role" if namespace else "ClusterRole")
        roles = f"{RBAC}/namespaces/{namespace}/roles" if role == "Role" else f"{RBAC}/clusterroles"
        bindings = (
            f"{RBAC}/namespaces/{namespace}/rolebindings" if namespace else f"{RBAC}/clusterrolebindings"
        )
        admin.ok("POST", roles, {"metadata": {"name": name}, "rules": rules})
        admin.ok(
            "POST",
            bindings,
            {
                "metadata": {"name": name},
                "roleRef": {"kind": role, "name": name},
                "subjects": [subject or {"kind": "User", "name": "alice"}],
            },
        )
        made.extend([f"{bindings}/{name}", f"{roles}/{name}"])
        return name

    yield give
    for path in made:
        admin.call("DELETE", path)


@pytest.fixture
def ns(admin):
    """A namespace of its own."""
    name = f"t{next(_NUMBERS)}"
    admin.ok("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    admin.call("DELETE", f"/api/v1/namespaces/{name}")


def rule(verbs, resources, group="", names=()):
    """Return a rule."""
    more = {"resourceNames": list(names)} if names else {}
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split(), **more}


# -- who asks -----------------------------------------------------------------------------------------


def test_an_unknown_token_is_401_and_none_at_all_is_anonymous(url):
    """401 has the API server's Status; without a token the version is told and nothing else."""
    code, answer = As(url, "wrong").call("GET", "/version")
    assert code == 401
    assert answer == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    }  # fmt: skip
    nobody = As(url)
    assert nobody.ok("GET", "/version")["gitVersion"]
    code, answer = nobody.call("GET", "/api/v1/pods")
    assert code == 403
    assert 'User "system:anonymous" cannot list resource "pods"' in answer["message"]
    assert nobody.call("PUT", "/debug/faults", {})[1]["message"] == (
        'forbidden: User "system:anonymous" cannot put path "/debug/faults"'
    )


def test_a_service_account_asks_with_the_token_that_it_was_given(url, admin, grant, ns):
    """TokenRequest gives a token; its user is bound as a ServiceAccount; it ends with the account."""
    accounts = f"/api/v1/namespaces/{ns}/serviceaccounts"
    admin.ok("POST", accounts, {"metadata": {"name": "runner"}})
    given = admin.ok("POST", f"{accounts}/runner/token", {"spec": {"expirationSeconds": 600}})
    runner = As(url, given["status"]["token"])
    code, answer = runner.call("GET", f"/api/v1/namespaces/{ns}/pods")
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == (
        f'pods is forbidden: User "system:serviceaccount:{ns}:runner" cannot list resource "pods" '
        f'in API group "" in the namespace "{ns}"'
    )
    grant([rule("list", "pods")], ns, {"kind": "ServiceAccount", "name": "runner", "namespace": ns})
    assert runner.ok("GET", f"/api/v1/namespaces/{ns}/pods")["items"] == []
    admin.ok("DELETE", f"{accounts}/runner")
    assert runner.call("GET", f"/api/v1/namespaces/{ns}/pods")[0] == 401


def test_a_token_ends_with_its_time():
    """A token is good until it expires."""
    store = empty_store()
    account = store.create("ServiceAccount", {"metadata": {"name": "a", "namespace": "default"}})
    tokens = Tokens({})
    fresh = tokens.issue(account, store.clock() + dt.timedelta(seconds=60))
    stale = tokens.issue(account, store.clock())
    assert tokens.user_of(f"Bearer {fresh}", store).name == "system:serviceaccount:default:a"
    with pytest.raises(ApiError) as refused:
        tokens.user_of(f"Bearer {stale}", store)
    assert refused.value.code == 401


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ("x", "tokens must be a list"),
        ([{"token": "", "user": "u"}], "not empty"),
        ([{"token": "t", "user": "u", "group": []}], "each row is an object"),
        ([{"token": "t", "user": "u", "groups": "g"}], "groups of user u must be a list"),
        (
            [{"token": "t", "user": "u"}, {"token": "t", "user": "v"}],
            "the same token, the second is of user v",
        ),
    ],
)
def test_tokens_that_cannot_be_used_are_one_line(rows, line):
    """The process does not start with them."""
    with pytest.raises(TokenError, match=line):
        Tokens.of(rows)


# -- what rules allow ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_line", "wanted"),
    [
        ("GET /api/v1/namespaces/a/pods", Attributes("list", "", "", "pods", "", "a")),
        ("GET /api/v1/pods?watch=1", Attributes("watch", "", "", "pods")),
        ("GET /api/v1/namespaces/a/pods/x/log", Attributes("get", "", "", "pods", "log", "a", "x")),
        ("GET /api/v1/namespaces/a", Attributes("get", "", "", "namespaces", "", "a", "a")),
        (
            "PUT /api/v1/namespaces/a/finalize",
            Attributes("update", "", "", "namespaces", "finalize", "a", "a"),
        ),
        ("POST /api/v1/namespaces", Attributes("create", "", "", "namespaces")),
        ("PATCH /api/v1/nodes/n/status", Attributes("patch", "", "", "nodes", "status", "", "n")),
        ("GET /api/v1/nodes/n/proxy/configz", Attributes("get", "", "", "nodes", "proxy", "", "n")),
        (
            "DELETE /apis/batch/v1/namespaces/a/jobs",
            Attributes("deletecollection", "", "batch", "jobs", "", "a"),
        ),
        (
            "GET /api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Da",
            Attributes("watch", "", "", "namespaces", "", "", "a"),
        ),
        ("GET /api", Attributes("get", "/api")),
        ("GET /apis/batch/v1", Attributes("get", "/apis/batch/v1")),
        ("POST /debug/compact", Attributes("post", "/debug/compact")),
    ],
)
def test_what_a_request_asks_for(request_line, wanted):
    """Verb, resource, namespace and name as the API server reads them from method, path and query."""
    from urllib.parse import parse_qsl, urlsplit

    method, _, target = request_line.partition(" ")
    parts = urlsplit(target)
    found = attributes_of(method, parts.path, dict(parse_qsl(parts.query)))
    assert found == Attributes(**{**vars(wanted), "path": parts.path})


def asked(verb="get", resource="pods", group="", name="", subresource=""):
    """Return attributes."""
    return Attributes(verb, "", group, resource, subresource, "a", name)


@pytest.mark.parametrize(
    ("given", "request_", "wanted"),
    [
        (rule("get list", "pods"), asked("list"), True),
        (rule("get", "pods"), asked("list"), False),
        (rule("*", "*", "*"), asked("patch", "nodes", "", "n", "status"), True),
        (rule("get", "pods"), asked("get", "pods", "", "x", "log"), False),
        (rule("get", "pods/log"), asked("get", "pods", "", "x", "log"), True),
        (rule("get", "pods/log"), asked("get", "pods", "", "x"), False),
        (rule("patch", "*/status"), asked("patch", "nodes", "", "n", "status"), True),
        (rule("patch", "*/status"), asked("patch", "nodes", "", "n"), False),
        (rule("get", "jobs", "batch"), asked("get", "jobs", "batch.volcano.sh"), False),
        (rule("get", "pods", "", ["x"]), asked("get", "pods", "", "x"), True),
        (rule("get", "pods", "", ["x"]), asked("get", "pods", "", "y"), False),
        (rule("create", "pods", "", ["x"]), asked("create"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/api/*"]}, Attributes("get", "/api/v1"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/api"]}, Attributes("get", "/api/v1"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["*"]}, asked(), False),
        (rule("*", "*", "*"), Attributes("get", "/metrics"), False),
    ],
)
def test_a_rule_allows_what_it_says(given, request_, wanted):
    """Wildcards, sub-resources, names and paths; a rule on resources says nothing of paths, nor the reverse."""
    assert allows(given, request_) is wanted


@pytest.mark.parametrize(
    ("request_", "message", "details"),
    [
        (
            Attributes("patch", "", "", "nodes", "status", "", "gpu-0"),
            (
                'nodes "gpu-0" is forbidden: User "u" cannot patch resource "nodes/status" in API group "" '
                "at the cluster scope"
            ),
            {"name": "gpu-0", "kind": "nodes"},
        ),
        (
            Attributes("create", "", "batch.volcano.sh", "jobs", "", "a"),
            (
                'jobs.batch.volcano.sh is forbidden: User "u" cannot create resource "jobs" in API group '
                '"batch.volcano.sh" in the namespace "a"'
            ),
            {"group": "batch.volcano.sh", "kind": "jobs"},
        ),
        (Attributes("get", "/x<y"), 'forbidden: User "u" cannot get path "/x&lt;y"', {}),
    ],
)
def test_a_refusal_has_the_words_of_the_api_server(request_, message, details):
    """Message and details as kube-apiserver's ForbiddenStatusError makes them."""
    error = forbidden(User("u"), request_)
    assert (error.code, error.reason, error.message, error.details) == (403, "Forbidden", message, details)


# -- bindings -----------------------------------------------------------------------------------------


def test_a_role_holds_in_its_namespace_only(alice, grant, ns):
    """A RoleBinding, to a Role or to a ClusterRole, grants nothing outside its namespace."""
    grant([rule("get list watch create", "pods")], ns)
    grant([rule("get", "namespaces")], ns, kind="ClusterRole")
    body = pod("x")
    body["metadata"]["namespace"] = ns
    assert alice.ok("POST", f"/api/v1/namespaces/{ns}/pods", body)["metadata"]["name"] == "x"
    assert alice.ok("GET", f"/api/v1/namespaces/{ns}")["metadata"]["name"] == ns
    for path in ("/api/v1/namespaces/default/pods", "/api/v1/pods", "/api/v1/namespaces/default"):
        assert alice.call("GET", path)[0] == 403, path
    assert alice.call("DELETE", f"/api/v1/namespaces/{ns}/pods/x")[0] == 403


def test_a_cluster_role_binding_holds_everywhere_and_groups_count(alice, grant, ns):
    """A group of a token is a subject; node status is its own resource."""
    grant([rule("get list", "nodes pods")], subject={"kind": "Group", "name": "dev"})
    assert alice.ok("GET", "/api/v1/nodes")["items"] == []
    assert alice.ok("GET", f"/api/v1/namespaces/{ns}/pods")["items"] == []
    assert "nodes/status" in alice.call("PATCH", "/api/v1/nodes/n/status", {})[1]["message"]


def test_a_binding_to_a_role_that_is_missing_is_named(admin, alice, ns):
    """The refusal says which role a binding of the user lacks."""
    body = {
        "metadata": {"name": "lost"},
        "roleRef": {"kind": "Role", "name": "gone"},
        "subjects": [{"kind": "User", "name": "alice"}],
    }
    admin.ok("POST", f"{RBAC}/namespaces/{ns}/rolebindings", body)
    message = alice.call("GET", f"/api/v1/namespaces/{ns}/pods")[1]["message"]
    assert message.endswith(f'in the namespace "{ns}": RBAC: role.rbac.authorization.k8s.io "gone" not found')


def test_a_watch_is_refused_before_it_begins(alice, grant, ns):
    """List without watch: the stream is answered with 403."""
    grant([rule("list", "pods")], ns)
    assert alice.ok("GET", f"/api/v1/namespaces/{ns}/pods")
    assert (
        'cannot watch resource "pods"'
        in alice.call("GET", f"/api/v1/namespaces/{ns}/pods?watch=1")[1]["message"]
    )


def test_an_aggregated_role_has_the_rules_of_those_it_selects():
    """The controller writes them, wildcards included, and takes them away with their role."""

    async def scenario():
        async with cluster() as runtime:
            store = runtime.store
            selector = {"clusterRoleSelectors": [{"matchLabels": {"to-admin": "yes"}}]}
            store.create("ClusterRole", {"metadata": {"name": "sum"}, "aggregationRule": selector})
            part = {
                "metadata": {"name": "part", "labels": {"to-admin": "yes"}},
                "rules": [rule("*", "*", "*")],
            }
            store.create("ClusterRole", part)
            await until(runtime, lambda: store.get("ClusterRole", None, "sum").get("rules") == part["rules"])
            store.delete("ClusterRole", None, "part")
            await until(runtime, lambda: store.get("ClusterRole", None, "sum")["rules"] == [])

    run(scenario())


# -- what a user may ask about itself -----------------------------------------------------------------


def test_reviews_tell_a_user_its_rights(alice, grant, ns):
    """SelfSubjectAccessReview answers one question, SelfSubjectRulesReview gives the rules of a namespace."""
    reviews = "/apis/authorization.k8s.io/v1"
    grant([rule("get", "pods")], ns)

    def may(verb):
        spec = {"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": ns}}
        return alice.ok("POST", f"{reviews}/selfsubjectaccessreviews", {"spec": spec})["status"]["allowed"]

    assert (may("get"), may("delete")) == (True, False)
    status = alice.ok("POST", f"{reviews}/selfsubjectrulesreviews", {"spec": {"namespace": ns}})["status"]
    assert rule("get", "pods") in status["resourceRules"]
    assert all(each["verbs"] != ["*"] for each in status["resourceRules"])
    assert status["incomplete"] is False
    assert alice.call("POST", f"{reviews}/selfsubjectaccessreviews", {"spec": {}})[0] == 422


def test_kubectl_asks_and_applies(ready, admin, tmp_path):
    """With the tokens of a kubeconfig, over TLS, kubectl auth can-i and kubectl apply of roles work."""
    secure = ready["tls"]
    ca = base64.b64encode(secure["ca"].encode()).decode()
    cluster_ = {"server": secure["url"], "certificate-authority-data": ca}
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "clusters": [{"name": "c", "cluster": cluster_}],
                "users": [{"name": "c", "user": {"token": ALICE}}, {"name": "root", "user": {"token": ADMIN}}],
                "contexts": [
                    {"name": "c", "context": {"cluster": "c", "user": "c"}},
                    {"name": "root", "context": {"cluster": "c", "user": "root"}},
                ],
            }
        )
    )  # fmt: skip

    def kubectl(*words, given=None):
        done = subprocess.run(
            [str(pathlib.Path(sys.executable).with_name("kubectl")), f"--kubeconfig={kubeconfig}", *words],
            input=given, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        # kubectl warns that nodes have no namespace, with an empty line after it.
        return (done.stdout.strip() or done.stderr.strip()).splitlines()[-1]

    assert kubectl("auth", "can-i", "list", "nodes") == "no"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "see"},
        "rules": [rule("list", "nodes")],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "see"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "see"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    documents = "\n---\n".join(json.dumps(each) for each in (role, binding))
    assert "created" in kubectl("--context=root", "apply", "-f", "-", given=documents)
    assert kubectl("auth", "can-i", "list", "nodes") == "yes"
    assert 'User "alice" cannot delete resource "nodes"' in kubectl("delete", "node", "x")
    admin.call("DELETE", f"{RBAC}/clusterrolebindings/see")
    admin.call("DELETE", f"{RBAC}/clusterroles/see")
