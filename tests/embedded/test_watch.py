"""Watches over HTTP: resuming, ending, bookmarks, selectors, expiry."""

import contextlib
import socket

from tests.embedded.support import GPU, PATIENCE, pod


def maps(ns):
    """Return the path of the ConfigMaps of a namespace."""
    return f"/api/v1/namespaces/{ns}/configmaps"


def create(api, ns, name, **labels):
    """Create a ConfigMap."""
    return api.ok("POST", maps(ns), {"metadata": {"name": name, "labels": labels}})


def short(events):
    """Return type and name of each event but bookmarks."""
    return [(e["type"], e["object"]["metadata"].get("name")) for e in events if e["type"] != "BOOKMARK"]


def test_watch_from_a_list_misses_nothing(api, ns):
    """A watch that resumes at the version of a list reports each later change once."""
    create(api, ns, "a")
    version = api.ok("GET", maps(ns))["metadata"]["resourceVersion"]
    create(api, ns, "b")
    api.ok("PATCH", f"{maps(ns)}/a", {"data": {"k": "v"}}, "application/merge-patch+json")
    api.ok("DELETE", f"{maps(ns)}/b")
    events = api.watch(f"{maps(ns)}?watch=1&resourceVersion={version}&timeoutSeconds=1")
    assert short(events) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


def test_watch_without_version_begins_with_what_is_there(api, ns):
    """Without a version, present objects come first as ADDED."""
    create(api, ns, "a")
    events = api.watch(f"{maps(ns)}?watch=true&timeoutSeconds=1")
    assert short(events) == [("ADDED", "a")]


def test_watch_ends_with_a_bookmark_at_its_timeout(api, ns):
    """At timeoutSeconds the server ends the stream, with a bookmark when they are allowed."""
    made = create(api, ns, "a")
    path = f"{maps(ns)}?watch=1&timeoutSeconds=1&resourceVersion={made['metadata']['resourceVersion']}"
    assert list(api.watch(path)) == []
    events = list(api.watch(path + "&allowWatchBookmarks=true"))
    assert len(events) > 2
    assert {e["type"] for e in events} == {"BOOKMARK"}
    last = events[-1]["object"]
    assert (last["kind"], last["apiVersion"]) == ("ConfigMap", "v1")
    assert int(last["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])


def test_bookmark_lets_a_quiet_watch_resume_after_compaction(api, ns):
    """A version that only a bookmark carried can be resumed from, an older one is expired."""
    made = create(api, ns, "a")
    api.ok("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "x-"}})
    first = api.watch(
        f"{maps(ns)}?watch=1&allowWatchBookmarks=1&resourceVersion={made['metadata']['resourceVersion']}"
    )
    mark = next(e for e in first if e["type"] == "BOOKMARK")["object"]["metadata"]["resourceVersion"]
    assert int(mark) > int(made["metadata"]["resourceVersion"])


def test_watch_of_an_expired_version_gets_an_error_event(api, ns):
    """After compaction a watch from before is answered with one ERROR event of code 410."""
    made = create(api, ns, "a")
    api.ok("POST", "/debug/compact")
    events = list(api.watch(f"{maps(ns)}?watch=1&resourceVersion={made['metadata']['resourceVersion']}"))
    assert [(e["type"], e["object"]["code"], e["object"]["reason"]) for e in events] == [
        ("ERROR", 410, "Expired")
    ]


def test_selector_turns_changes_into_additions_and_deletions(api, ns):
    """An object that begins to match is ADDED, one that ceases to match is DELETED."""
    version = create(api, ns, "a", on="no")["metadata"]["resourceVersion"]
    for value in ("yes", "yes", "no"):
        api.ok(
            "PATCH", f"{maps(ns)}/a", {"metadata": {"labels": {"on": value}}, "data": {"v": value + "!"}},
            "application/merge-patch+json",
        )  # fmt: skip
    api.ok("PATCH", f"{maps(ns)}/a", {"data": {"v": "unseen"}}, "application/merge-patch+json")
    path = f"{maps(ns)}?watch=1&labelSelector=on%3Dyes&timeoutSeconds=1&resourceVersion={version}"
    events = list(api.watch(path))
    assert short(events) == [("ADDED", "a"), ("DELETED", "a")]
    assert int(events[1]["object"]["metadata"]["resourceVersion"]) > int(version) + 1


def test_field_selector_follows_one_name(api, ns):
    """A watch on metadata.name, as kubectl uses it, reports that object only."""
    create(api, ns, "a")
    create(api, ns, "b")
    events = api.watch(f"{maps(ns)}?watch=1&fieldSelector=metadata.name%3Db&timeoutSeconds=1")
    assert short(events) == [("ADDED", "b")]


def test_initial_events_end_with_an_annotated_bookmark(api, ns):
    """With sendInitialEvents present objects are followed by the bookmark that says they are complete."""
    create(api, ns, "a")
    path = (
        f"{maps(ns)}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        "&allowWatchBookmarks=true&timeoutSeconds=1"
    )
    events = list(api.watch(path))
    assert [e["type"] for e in events[:2]] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_pods_by_node_as_a_kubelet_watches_them(api, ns):
    """A kubelet's watch sees a pod as ADDED when it is bound to its node."""
    base = f"/api/v1/namespaces/{ns}/pods"
    body = pod("p", schedulerName="nobody")
    body["metadata"]["namespace"] = ns
    version = api.ok("POST", base, body)["metadata"]["resourceVersion"]
    api.ok("POST", f"{base}/p/binding", {"target": {"kind": "Node", "name": "n-" + ns}})
    path = f"/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn-{ns}&timeoutSeconds=1&resourceVersion={version}"
    events = list(api.watch(path))
    assert short(events) == [("ADDED", "p")]
    assert GPU not in str(events)


def test_dropped_watches_end_without_an_end(api, ns):
    """Under the fault of dropped watches the connection breaks in the middle of the stream."""
    api.ok("PUT", "/debug/faults", {"watch_drop_seconds": 0.2})
    try:
        host, _, port = api.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), PATIENCE) as connection:
            path = f"{maps(ns)}?watch=1&timeoutSeconds=600"
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            received = b""
            with contextlib.suppress(ConnectionResetError):
                while chunk := connection.recv(65536):
                    received += chunk
        assert received.startswith(b"HTTP/1.1 200")
        assert not received.endswith(b"0\r\n\r\n")
    finally:
        api.ok("PUT", "/debug/faults", {})


def test_watch_with_a_malformed_version_is_refused(api, ns):
    """A version that is no number is 400."""
    assert api.call("GET", f"{maps(ns)}?watch=1&resourceVersion=new")[0] == 400


def test_a_bookmark_before_the_end_says_the_present_version(api, ns):
    """Two seconds before its time is over a quiet watch hears of the version that a list would have."""
    made = create(api, ns, "a")
    api.ok("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "x-"}})
    present = int(api.ok("GET", f"{maps(ns)}?limit=1")["metadata"]["resourceVersion"])
    version = made["metadata"]["resourceVersion"]
    events = list(
        api.watch(f"{maps(ns)}?watch=1&allowWatchBookmarks=1&timeoutSeconds=3&resourceVersion={version}")
    )
    assert {event["type"] for event in events} == {"BOOKMARK"}
    assert all(int(event["object"]["metadata"]["resourceVersion"]) >= present for event in events)
