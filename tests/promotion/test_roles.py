"""With the roles that `gpucluster rbac` prints, and nothing else, a queue is promoted and the gatekeeper works."""

import contextlib
import io
import json
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
import yaml

from pytest_gpucluster import cli
from pytest_gpucluster.cli import gate
from pytest_gpucluster.kube import connection, errors, objects
from pytest_gpucluster.plain import times
from pytest_gpucluster.promotion.gatekeeper import forms, keeper, reading
from pytest_gpucluster.scenario import cluster_identity, permissions
from tests.embedded.support import Api, control_plane

from .conftest import KUEUE, QUEUES, make_cluster_queue, make_queue, state_of, wait
from .test_command import decide, saw

USERS = [
    {"token": "admin-token", "user": "kubernetes-admin", "groups": ["system:masters"]},
    {"token": "ci-token", "user": "ci"},
]
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Run a control plane that knows its users."""
    with control_plane({"kueue": True, "bookmark_seconds": 0.5, "tokens": USERS}) as ready:
        yield ready["url"]


@pytest.fixture
def raw(url):
    """Talk to it as the administrator."""
    return Api(url, "admin-token")


@pytest.fixture
def api(raw, place):
    """Talk to it as the administrator, as the command does."""
    opened = connection.Connection.open(as_user(place("any"), "admin-token"))
    yield objects.Objects(opened)
    opened.close()


def as_user(folder, token):
    """Let the kubeconfig of a folder be a user's."""
    config = json.loads((folder / "kubeconfig").read_text())
    config["users"] = [{"name": "u", "user": {"token": token}}]
    path = folder / f"kubeconfig-{token}"
    path.write_text(json.dumps(config))
    return path


@pytest.fixture
def grant(raw):
    """Give the user what a command prints, until the test's end; verbs may be left out."""
    made = []

    def give(words, less=()):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert cli.main(["rbac", *words]) == 0
        for role in yaml.safe_load_all(out.getvalue()):
            for rule in role["rules"]:
                for plural in rule["resources"]:
                    rule["verbs"] = [verb for verb in rule["verbs"] if (verb, plural) not in less]
            role["rules"] = [rule for rule in role["rules"] if rule["verbs"]]
            binding = {
                "metadata": role["metadata"],
                "roleRef": {
                    "apiGroup": permissions.RBAC,
                    "kind": role["kind"],
                    "name": role["metadata"]["name"],
                },
                "subjects": [{"apiGroup": permissions.RBAC, "kind": "User", "name": "ci"}],
            }
            space = role["metadata"].get("namespace")
            where = f"{RBAC}/namespaces/{space}" if space else RBAC
            for plural, body in (
                (f"{role['kind'].lower()}s", role),
                (f"{role['kind'].lower()}bindings", binding),
            ):
                raw.ok("POST", f"{where}/{plural}", body)
                made.append(f"{where}/{plural}/{role['metadata']['name']}")

    yield give
    for path in reversed(made):
        raw.ok("DELETE", path)


@pytest.fixture
def call(monkeypatch, capsys):
    """Call the command as the user with a decision that was made."""

    def run(folder, queue, *words, decided, runs):
        monkeypatch.setattr(gate, "considered", lambda *_: (decided, list(runs)))
        command = ["promote", "--queue", queue, "--for", "prod", "--profiles", str(folder), *words]
        status = cli.main(command)
        return (status, *capsys.readouterr())

    return run


def user_of(place, queue, more=""):
    """Return a folder whose profile is reached as the user."""
    folder = place(queue, more)
    path = as_user(folder, "ci-token")
    profile = (folder / "prod.yaml").read_text().replace("kubeconfig: kubeconfig", f"kubeconfig: {path.name}")
    (folder / "prod.yaml").write_text(profile)
    return folder


OPEN = ("--run", "run", "--policy", "weekly")


@pytest.mark.parametrize("kind", ["Queue", "ClusterQueue"])
def test_the_role_of_a_promotion_suffices(raw, api, place, call, grant, name, kind):  # noqa: PLR0917 (fixtures)
    """It opens, holds, writes its Event and reads what the cluster is; of another queue it may change nothing."""
    if kind == "Queue":
        make_queue(raw, name)
        make_queue(raw, f"{name}-other")
        folder, path = user_of(place, name), f"{QUEUES}/{name}"
    else:
        make_cluster_queue(raw, name)
        make_cluster_queue(raw, f"{name}-other")
        folder = user_of(place, "unused", f"kueue: {{cluster_queue: {name}}}")
        path = f"{KUEUE}/clusterqueues/{name}"
    grant(["--command", "promote", "--cluster", "prod", "--profiles", str(folder)])
    run = saw(api, name, kind)
    status, out, err = call(folder, name, *OPEN, decided=decide(run), runs=[run])
    assert (status, err) == (0, ""), out
    assert "no Event was written" not in out
    status, out, err = call(folder, name, "--hold", decided=None, runs=[])
    assert (status, err) == (0, ""), out
    assert raw.ok("GET", path)["metadata"]["annotations"]["gpucluster.dev/promotion"] == "held"
    other = saw(api, f"{name}-other", kind)
    status, _, err = call(folder, f"{name}-other", *OPEN, decided=decide(other), runs=[other])
    assert status == 1
    assert "403" in err
    assert len(err.splitlines()) == 1
    # What it reads to know the cluster, too.
    user = objects.Objects(connection.Connection.open(folder / "kubeconfig-ci-token"))
    survey = cluster_identity.survey(user, {}, {"volcano", "kueue"})
    assert survey.uid


@pytest.mark.parametrize(
    ("less", "line"),
    [
        (("create", "commands"), "no Command can be made: create Command/"),
        (("patch", "queues"), "cannot be written: patch Queue/"),
        (("get", "queues"), "cannot be read: get Queue/"),
        (("watch", "queues"), "watch"),
    ],
)
def test_one_verb_less_opens_nothing_and_is_named(raw, api, place, call, grant, name, less, line):  # noqa: PLR0917
    """One line, exit 1."""
    make_queue(raw, name)
    folder = user_of(place, name)
    grant(["--command", "promote", "--cluster", "prod", "--profiles", str(folder)], less=[less])
    run = saw(api, name)
    status, _, err = call(folder, name, *OPEN, decided=decide(run), runs=[run])
    assert status == 1
    assert line in err
    assert "forbidden" in err.lower()
    assert len(err.splitlines()) == 1
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"


def test_the_role_of_the_gatekeeper_suffices(raw, place, grant, name):
    """It sets the check Active; it may change neither queues nor the specs of checks."""
    raw.ok(
        "POST",
        f"{KUEUE}/admissionchecks",
        {"metadata": {"name": name}, "spec": {"controllerName": forms.CONTROLLER}},
    )
    folder = user_of(place, "q", f"kueue: {{cluster_queue: {name}}}")
    grant(["--command", "gatekeeper", "--cluster", "prod", "--profiles", str(folder)])
    user = objects.Objects(connection.Connection.open(folder / "kubeconfig-ci-token"))
    until = times.now() + timedelta(hours=1)
    said = reading.Reading(open=True, until=until, reason=reading.ACCEPTED, message="run-1: accepted")
    on = keeper.Keeper(user, name, lambda: said)
    thread = threading.Thread(target=on.run, daemon=True)
    thread.start()
    wait(raw, f"{KUEUE}/admissionchecks/{name}", lambda check: forms.is_true(check, "Active"))
    on.stop()
    thread.join(20)
    assert on.problem == ""
    for info, change in (
        (forms.CHECK, {"spec": {"controllerName": "x.io/y"}}),
        (objects.table_row("ClusterQueue"), {"spec": {"stopPolicy": "None"}}),
    ):
        with pytest.raises(errors.ApiError, match="403"):
            user.patch(info, name, change)
    assert cluster_identity.survey(user, {}, {"kueue"}).uid
