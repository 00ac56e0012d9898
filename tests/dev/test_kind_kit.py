"""The kit of dev/kind, as far as it needs neither root nor an engine."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tarfile

import pytest

from dev.kind.kit import archive, cache, engine, places, root, traces
from dev.kind.kit.cache import Part

ROOT = pathlib.Path(__file__).resolve().parents[2]
KIND = ROOT / "dev" / "kind"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Give a cache of its own."""
    monkeypatch.setattr(places, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(places, "HERE", tmp_path)
    return tmp_path / "cache"


def writer(text, made):
    """Return a maker of a part, that says that it was called."""

    def make(folder):
        made.append(text)
        (folder / "file").write_text(text)

    return make


def test_a_part_is_made_once(kept):
    """Also when another process asks for it again later."""
    made = []
    part = Part("a", writer("one", made))
    assert (part.made() / "file").read_text() == "one"
    assert Part("a", writer("two", made)).made() == part.folder
    assert made == ["one"]


def test_a_change_makes_what_it_changes_and_no_more(kept, tmp_path):
    """The key of a part follows its sources and the parts that it uses."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "main.go").write_text("1")
    below, beside = Part("below", writer("", []), sources=[source]), Part("beside", writer("", []))
    above = Part("above", writer("", []), uses=[below, beside])
    keys = [each.key for each in (below, beside, above)]
    (source / "main.go").write_text("2")
    changed = [each.key for each in (below, beside, above)]
    assert [ours != theirs for ours, theirs in zip(keys, changed, strict=True)] == [True, False, True]
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert changed == [each.key for each in (below, beside, above)]


def test_what_fails_half_way_is_not_taken_for_the_part(kept):
    """The folder appears when it is complete."""

    def fail(folder):
        (folder / "half").write_text("")
        raise SystemExit("out of disk")

    part = Part("broken", fail)
    with pytest.raises(SystemExit):
        part.made()
    assert not part.folder.exists()
    assert list(kept.iterdir()) == []


def test_old_versions_go_and_those_of_others_stay(kept):
    """A version that another checkout used lately is left alone."""
    part = Part("a", writer("", []))
    part.made()
    for name, days in (("a-old", 30), ("a-new", 1), ("other-old", 30)):
        (kept / name).mkdir()
        past = (kept / name).stat().st_mtime - days * 86400
        os.utime(kept / name, (past, past))
    cache.forget_others([part])
    assert sorted(each.name for each in kept.iterdir()) == sorted([part.folder.name, "a-new", "other-old"])


def test_archives_are_read_by_name_and_the_same_each_time(tmp_path):
    """One layer for all images; the same contents have the same bytes, whoever owns them and whenever."""
    folder = tmp_path / "root"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "tool").write_text("x")
    (folder / "tool").symlink_to("bin/tool")
    images = [archive.Image(["a:1", "b:1"], ["/tool"], "65532:65532"), archive.Image(["c:1"])]
    archive.write(tmp_path / "one.tar", folder, images)
    os.utime(folder / "bin" / "tool", (1, 1))
    archive.write(tmp_path / "two.tar", folder, images)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as tar:
        manifest = json.load(tar.extractfile("manifest.json"))
        config = json.load(tar.extractfile(manifest[0]["Config"]))
        with tarfile.open(fileobj=tar.extractfile(manifest[0]["Layers"][0])) as layer:
            assert layer.getnames() == ["bin", "bin/tool", "tool"]
    assert [each["RepoTags"] for each in manifest] == [["a:1", "b:1"], ["c:1"]]
    assert manifest[0]["Layers"] == manifest[1]["Layers"]
    assert (config["config"]["User"], config["config"]["Entrypoint"]) == ("65532:65532", ["/tool"])


def test_the_runtime_asks_for_no_more_than_the_machine_may_give(tmp_path):
    """What runc would fail on is taken out of the bundle, and runc is called with the same words."""
    fake = tmp_path / "bin" / "runc"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho "$@"\n')
    fake.chmod(0o755)
    process = {
        "capabilities": {"bounding": ["CAP_CHOWN", "CAP_NO_SUCH"], "ambient": None},
        "oomScoreAdj": -999,
    }
    (tmp_path / "config.json").write_text(json.dumps({"process": process, "mounts": []}))
    words = ["--log", "x", "create", "--bundle", str(tmp_path), "id"]
    environment = {**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, str(KIND / "kit" / "runtime.py"), *words],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == words
    written = json.loads((tmp_path / "config.json").read_text())
    assert "CAP_NO_SUCH" not in written["process"]["capabilities"]["bounding"]
    assert written["process"]["oomScoreAdj"] == 0
    assert written["mounts"] == []


def test_versions_are_those_of_the_module_files():
    """The version of Kubernetes is said once."""
    assert re.fullmatch(r"v1\.\d+\.\d+", places.kubernetes_version())


def test_no_registry_is_named():
    """Names of images come from kubeadm and from us; no host is written down."""
    hosts = re.compile(
        r"registry\.k8s|gcr\.io|quay\.io|docker\.io/|ghcr\.io|pkg\.dev|proxy\.golang|deb\.debian"
    )
    for path in KIND.rglob("*"):
        if path.is_file() and path.suffix not in (".sum", ".mod", ".pyc"):
            assert not hosts.search(path.read_text()), path


def test_the_payload_has_the_python_that_the_mount_is_made_for():
    """Debian's packages are the smallest that torch's wheel runs on."""
    assert set(root.PAYLOAD_PACKAGES) == {"python3", "libstdc++6", "libgomp1"}


def test_what_was_never_made_is_said_in_one_line(tmp_path):
    """`env` names the command that makes it; with --if-made it says nothing."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([KIND / "env"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "dev/kind: node, payload, addons not made yet: run dev/kind/up first\n"
    quiet = subprocess.run(
        [KIND / "env", "--if-made"], env=environment, capture_output=True, text=True, check=True
    )
    assert quiet.stdout + quiet.stderr == ""


def test_nothing_of_a_killed_engine_is_used_again(tmp_path, monkeypatch):
    """Its nodes would start again and be taken for a cluster: they are removed, images stay."""
    docker, calls = tmp_path / "docker", tmp_path / "calls"
    docker.write_text(f'#!/bin/sh\necho "$@" >>{calls}\n[ "$1" = ps ] && printf "one\\ntwo\\n" || true\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    engine.empty()
    assert calls.read_text().splitlines() == [
        "ps --all --quiet",
        "rm --force --volumes one two",
        "network prune --force",
        "volume prune --force",
    ]


BEFORE = """*filter
:INPUT ACCEPT [10:20]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [5:6]
:OURS - [0:0]
-A INPUT -i lo -j ACCEPT
-A FORWARD -j OURS
COMMIT
*nat
:PREROUTING ACCEPT [1:2]
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -s 192.168.0.0/16 -j MASQUERADE
COMMIT
"""
NOW = """# Generated by iptables-save v1.8.9
*filter
:INPUT ACCEPT [99:999]
:FORWARD DROP [7:7]
:OUTPUT ACCEPT [5:6]
:DOCKER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-USER - [0:0]
:OURS - [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -p tcp -m comment --comment "made meanwhile" -j ACCEPT
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -i br-0123456789ab ! -o br-0123456789ab -j ACCEPT
-A FORWARD -j OURS
-A DOCKER-USER -i br-+ ! -o br-+ -j REJECT --reject-with icmp-port-unreachable
-A DOCKER-USER -j RETURN
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
COMMIT
*nat
:PREROUTING ACCEPT [1:2]
:POSTROUTING ACCEPT [0:0]
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-A POSTROUTING -s 192.168.0.0/16 -j MASQUERADE
COMMIT
"""


def played(text, commands):
    """Return what iptables-save would print after commands; each rule and chain must be there."""
    tables = {name: list(lines) for name, lines in traces._parsed(text).items()}
    for flag, table, do, name, *rest in commands:
        assert flag == "-t"
        lines = tables[table]
        if do == "-D":
            lines.remove(next(line for line in lines if shlex.split(line) == ["-A", name, *rest]))
        elif do == "-F":
            lines[:] = [line for line in lines if not line.startswith(f"-A {name} ")]
        elif do == "-X":
            assert not [line for line in lines if name in line.split()[1:]], "still in use"
            lines.remove(f":{name} -")
        else:
            assert do == "-P"
            lines[:] = [f":{name} {rest[0]}" if line.startswith(f":{name} ") else line for line in lines]
    return tables


def test_down_takes_back_every_rule_that_the_engine_made():
    """Chains, jumps, masquerading and the policy; what others had before, or made meanwhile, stays."""
    left = played(NOW, traces.undoing(BEFORE, NOW))
    wanted = traces._parsed(BEFORE)
    wanted["filter"].insert(5, '-A INPUT -p tcp -m comment --comment "made meanwhile" -j ACCEPT')
    assert left == wanted


def test_rules_of_an_engine_that_was_there_before_stay():
    """Somebody's own engine is stopped, and its rules are still there: they are not ours."""
    assert traces.undoing(NOW, NOW) == []


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Give a machine of files: settings, links, and programs that say what they were run with."""
    for name, value in {"net/ipv4/ip_forward": "0\n", "net/ipv6/conf/all/forwarding": "0\n"}.items():
        (tmp_path / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / name).write_text(value)
    (tmp_path / "class" / "eth0").mkdir(parents=True)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name in ("iptables", "iptables-save", "ip"):
        (bin_ / name).write_text(
            f'#!/bin/sh\n[ {name} = iptables-save ] && exec cat {tmp_path}/rules\necho {name} "$@" >> {tmp_path}/ran\n'
        )
        (bin_ / name).chmod(0o755)
    (tmp_path / "rules").write_text(BEFORE)
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("PATH", f"{bin_}:/bin:/usr/bin")
    monkeypatch.setattr(traces, "PROC", tmp_path / "sys")
    monkeypatch.setattr(traces, "LINKS", tmp_path / "class")
    monkeypatch.setattr(traces, "TABLES", ("iptables",))
    return tmp_path


def test_settings_and_links_are_taken_back(machine):
    """Also those that the engine changes by itself; once, and only if something was written down."""
    run = machine / "run"
    traces.take_back(run)
    traces.keep(run, ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "not/there"))
    (machine / "sys/net/ipv4/ip_forward").write_text("1\n")
    (machine / "sys/net/ipv6/conf/all/forwarding").write_text("1\n")
    for link in ("docker0", "br-0123456789ab", "wg0"):
        (machine / "class" / link).mkdir()
    (machine / "rules").write_text(NOW)
    traces.take_back(run)
    assert (machine / "sys/net/ipv4/ip_forward").read_text() == "0\n"
    assert (machine / "sys/net/ipv6/conf/all/forwarding").read_text() == "0\n"
    ran = (machine / "ran").read_text().splitlines()
    assert [line for line in ran if line.startswith("ip ")] == [
        "ip link delete br-0123456789ab", "ip link delete docker0",
    ]  # fmt: skip
    assert "iptables -w -t filter -P FORWARD ACCEPT" in ran
    assert list(run.iterdir()) == []


def test_what_was_before_an_engine_that_was_killed_counts(machine):
    """The next start finds the machine as that engine left it, and must not take that for what it was."""
    run = machine / "run"
    traces.keep(run, ("net/ipv4/ip_forward",))
    (machine / "sys/net/ipv4/ip_forward").write_text("1\n")
    traces.keep(run, ("net/ipv4/ip_forward",))
    traces.take_back(run)
    assert (machine / "sys/net/ipv4/ip_forward").read_text() == "0\n"


def test_down_takes_back_what_a_killed_engine_left(machine, monkeypatch):
    """No engine lives, and its traces are there all the same."""
    monkeypatch.setattr(engine, "RUN", machine / "run")
    monkeypatch.setattr(engine, "PID", machine / "run" / "docker.pid")
    traces.keep(machine / "run", ("net/ipv4/ip_forward",))
    (machine / "sys/net/ipv4/ip_forward").write_text("1\n")
    engine.stop()
    assert (machine / "sys/net/ipv4/ip_forward").read_text() == "0\n"
