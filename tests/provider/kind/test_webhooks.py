"""Webhooks of add-ons are waited for until the API server reaches them."""

import pytest

from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.provider import ProviderError
from pytest_gpucluster.provider.kind import webhooks

REFUSED = 'failed calling webhook "mjob.kb.io": failed to call webhook: Post "https://w": dial tcp: connection refused'


def configuration(policy="Fail", resources=("jobs",), operations=("CREATE",), **client):
    """A webhook configuration."""
    rule = {
        "operations": list(operations), "apiGroups": ["batch"], "apiVersions": ["v1"], "resources": list(resources),
    }  # fmt: skip
    client = client or {"service": {"name": "w", "namespace": "kueue-system"}}
    return {
        "webhooks": [{"name": "mjob.kb.io", "failurePolicy": policy, "clientConfig": client, "rules": [rule]}]
    }


class Api(objects.Objects):
    """An API server that reaches its webhooks after some questions."""

    def __init__(self, *answers):
        """Give the answers in turn, the last for ever."""
        self.answers = list(answers)
        self.asked = []
        super().__init__(self)

    def call(self, ask):
        """Answer a look-up."""
        assert ask.path == "/apis/batch/v1"
        return {
            "resources": [
                {"name": "jobs/status", "kind": "Job"},
                {"name": "jobs", "kind": "Job", "namespaced": True},
            ]
        }

    def create(self, body, *, namespace, dry_run):
        """Answer a creation."""
        assert dry_run
        self.asked.append((body["kind"], namespace))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer:
            raise errors.ApiError(*answer, request="create Job")


def test_it_is_asked_again_until_the_webhook_is_reached(monkeypatch):
    """Whatever is then said against the empty object: the webhook has seen it."""
    monkeypatch.setattr(webhooks, "PAUSE", 0.01)
    for last in (
        None,
        (422, "Invalid", "spec.template: Required value"),
        (403, "Forbidden", "denied by kueue"),
    ):
        api = Api((500, "InternalError", REFUSED), (500, "InternalError", REFUSED), last)
        webhooks.answering(api, [configuration()], 5)
        assert api.asked == [("Job", "default")] * 3


def test_one_that_is_never_reached_is_told_with_the_servers_words(monkeypatch):
    """Within the limit."""
    monkeypatch.setattr(webhooks, "PAUSE", 0.01)
    with pytest.raises(ProviderError, match=r"not reached within 0 s.*mjob\.kb\.io.*connection refused"):
        webhooks.answering(Api((500, "InternalError", REFUSED)), [configuration()], 0.05)


@pytest.mark.parametrize(
    "harmless",
    [
        configuration("Ignore"),
        configuration(resources=["jobs/status"]),
        configuration(resources=["*"]),
        configuration(operations=["UPDATE"]),
        configuration(url="https://elsewhere"),
        {},
    ],
)
def test_what_stops_no_creation_is_not_asked(harmless):
    """Hooks that may fail, sub-resources, other verbs, hooks outside the cluster."""
    api = Api((500, "InternalError", REFUSED))
    webhooks.answering(api, [harmless], 0.05)
    assert api.asked == []


def test_kinds_that_are_not_served_are_left_out():
    """Kueue's webhooks also watch over frameworks that nobody has installed."""
    api = Api(None)
    api.call = lambda ask: (_ for _ in ()).throw(errors.ApiError(404, "NotFound", "no", request=ask.path))
    webhooks.answering(api, [configuration()], 0.05)
    assert api.asked == []
