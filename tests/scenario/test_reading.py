"""Reading what no watch follows: one request, its answer recorded, and which refusals are answers."""

import json

import pytest

from pytest_gpucluster.kube import errors


def recorded(theatre):
    """Return the answers that were recorded."""
    lines = [json.loads(line) for line in theatre.log.path.read_text().splitlines()]
    return [line for line in lines if line["type"] == "RESPONSE"]


def test_an_object_is_read_and_recorded(theatre, monkeypatch):
    """The object comes back and lies in the evidence under its case."""
    found = {"metadata": {"name": "x"}, "data": {"a": "b"}}
    monkeypatch.setattr(theatre.site.api, "get", lambda *_: found)
    assert theatre.stage.read("v1", "ConfigMap", "x", namespace="ns", case="read:x") == found
    (line,) = recorded(theatre)
    assert (line["case"], line["code"], line["object"]) == ("read:x", 200, found)
    assert line["request"] == "get configmaps/x in ns"


def test_a_list_is_recorded_without_field_owners(theatre, monkeypatch):
    """Half of a listed object is who wrote which field; nobody reads it."""
    item = {"metadata": {"name": "d", "managedFields": [1]}, "spec": {}}
    monkeypatch.setattr(theatre.site.api, "list", lambda *_: [item])
    theatre.stage.read_all("apps/v1", "Deployment", namespace="ns", case="read:d")
    (line,) = recorded(theatre)
    assert line["items"] == [{"metadata": {"name": "d"}, "spec": {}}]
    assert line["request"] == "list deployments in ns"


@pytest.mark.parametrize("code", [403, 404])
def test_what_may_not_be_read_or_is_not_there_is_an_answer(theatre, monkeypatch, code):
    """The judge is told the code and the server's words; the scenario goes on."""

    def refuse(*_):
        raise errors.ApiError(code, "No", "not for you", body={"message": "not for you"})

    monkeypatch.setattr(theatre.site.api, "get", refuse)
    assert theatre.stage.read("v1", "ConfigMap", "x", namespace="ns", case="read:x") is None
    (line,) = recorded(theatre)
    assert (line["code"], line["status"]) == (code, {"message": "not for you"})


def test_trouble_of_the_server_is_raised(theatre, monkeypatch):
    """An error of the server says nothing about the object."""

    def fail(*_):
        raise errors.ApiError(500, "InternalError", "etcd is gone")

    monkeypatch.setattr(theatre.site.api, "get", fail)
    with pytest.raises(errors.ApiError, match="etcd is gone"):
        theatre.stage.read("v1", "ConfigMap", "x", namespace="ns", case="read:x")
    assert recorded(theatre) == []
