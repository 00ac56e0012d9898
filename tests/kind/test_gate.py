"""The gate on a real Kueue: a queue is promoted behind it, and the gatekeeper lets in what evidence vouches for."""

import contextlib
import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
import yaml

from pytest_gpucluster.kube import leases, objects
from pytest_gpucluster.plain import times
from pytest_gpucluster.promotion import records, switching, targets
from pytest_gpucluster.promotion.gatekeeper import forms
from tests.kind import account, lab

pytestmark = pytest.mark.kind

KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
QUEUE, CHECKED, CHECK = "gate-promoted", "gate-checked", "gate-fit"
PROFILE = "gated"
ROWS = "INV-002 or INV-005"
CHANGES = {"kueue": {"cluster_queue": QUEUE}, "conformance_queue": "conformance"}
LIMIT = 64 * 1024
"""Memory of the gatekeeper itself, in KiB."""
SOON = 10.0
"""Seconds until the evidence is too old, beside twice what it took a gatekeeper to start and read the gate."""


def cluster_queue(name: str, **spec: Any) -> dict[str, Any]:
    """Return a ClusterQueue of some GPUs."""
    quota = {"name": QUEUE, "resources": [{"name": GPU, "nominalQuota": 4}]}
    group = {"coveredResources": [GPU], "flavors": [quota]}
    body = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
    return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": body}


MADE = (
    {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": QUEUE}},
    {
        "apiVersion": KUEUE,
        "kind": "AdmissionCheck",
        "metadata": {"name": CHECK},
        "spec": {"controllerName": forms.CONTROLLER},
    },
    cluster_queue(QUEUE, stopPolicy="Hold"),
    cluster_queue(CHECKED, admissionChecksStrategy={"admissionChecks": [{"name": CHECK}]}),
    {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": {"name": CHECKED, "namespace": "default"},
        "spec": {"clusterQueue": CHECKED},
    },
)


@dataclasses.dataclass(frozen=True)
class Stand:
    """Queues on a real Kueue, a run that saw them, and who may promote and keep the gate.

    Attributes:
        lab: the cluster.
        folder: with the policies and kubeconfigs.
        run: the folder of the run.
        profiles: the folder of the profile.
    """

    lab: lab.Lab
    folder: pathlib.Path
    run: pathlib.Path
    profiles: pathlib.Path

    def command(self, name: str, *words: str) -> list[str]:
        """Return the words of a command on the profile."""
        return [
            sys.executable,
            "-c",
            account.CODE,
            name,
            "--for",
            PROFILE,
            "--profiles",
            str(self.profiles),
            *words,
        ]

    def call(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        return subprocess.run(
            self.command(name, *words),
            cwd=self.folder,
            env=lab.plain_environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def promote(self, *words: str, policy: str = "rows.yaml") -> tuple[int, dict[str, Any], str]:
        """Promote the queue; return exit status, what it printed as JSON, and its errors."""
        done = self.call("promote", *self.opening(policy), "--json", *words)
        return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr

    def opening(self, policy: str) -> list[str]:
        """Return the words that open the queue."""
        return ["--queue", f"clusterqueue/{QUEUE}", "--run", str(self.run), "--policy", policy]

    def queue(self, name: str = QUEUE) -> dict[str, Any]:
        """Return a ClusterQueue."""
        found: dict[str, Any] = self.lab.get("ClusterQueue", name)
        return found

    def target(self) -> targets.Target:
        """Return the queue that is promoted."""
        return targets.Target(objects.table_row("ClusterQueue"), self.queue())

    def policy(self, name: str, age: str, *rows: str) -> str:
        """Write a policy and return its file's name."""
        body = {"summary": name, "age": age, "stages": [{"name": "node", "rows": [*rows]}]}
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
        return f"{name}.yaml"


@pytest.fixture(scope="module")
def stand(kind_lab, tmp_path_factory):
    """Make the queues, and one run that both tests gate on."""
    kind_lab.require(["kueue"])
    folder = tmp_path_factory.mktemp("gate")
    with kind_lab.having(*MADE):
        found = kind_lab.decide(PROFILE, ROWS, changes=CHANGES)
        assert found["INV-002"]["verdict"] == "pass", found
        run = (kind_lab.folder / "reports" / PROFILE / "latest").resolve()
        made = Stand(kind_lab, folder, run, kind_lab.as_existing(PROFILE, CHANGES))
        made.policy("rows", "1d", "INV-002")
        made.policy("held", "1d", "INV-002", "INV-005")
        yield made


@contextlib.contextmanager
def as_account(stand: Stand, command: str):
    """Let the profile be that of an account with the least role of a command."""
    words = (
        "--command", command, f"--cluster={PROFILE}", f"--profiles={stand.profiles}",
    )  # fmt: skip
    name = f"gate-{command}"
    with account.granted(stand.lab, name, stand.folder, *words) as kubeconfig:
        stand.lab.as_existing(PROFILE, CHANGES, kubeconfig=str(kubeconfig), context=name)
        try:
            yield
        finally:
            stand.lab.as_existing(PROFILE, CHANGES)


def told(queue: dict[str, Any]) -> dict[str, str]:
    """Return the annotations of a queue."""
    return queue["metadata"].get("annotations") or {}


def test_a_queue_of_a_real_kueue_is_promoted(stand):
    """Dry run, trial, hold, two at once, killed, edited: with the least role, seen by Kueue's own condition."""
    with as_account(stand, "promote"):
        before = stand.queue()
        status, said, err = stand.promote("--dry-run")
        assert (status, said.get("outcome")) == (0, "would be opened"), err
        assert stand.queue()["metadata"] == before["metadata"]

        status, said, err = stand.promote("--by", "ann", policy="held.yaml")
        assert (status, said.get("outcome")) == (0, "opened"), (said, err)
        assert said["trial"]["rows"] == ["INV-005"]
        assert said["notes"] == []
        queue = stand.queue()
        assert queue["spec"]["stopPolicy"] == "None"
        assert forms.is_true(queue, "Active")
        assert (told(queue)[records.STATE], told(queue)[records.BY]) == ("open", "ann")
        assert stand.run.name in told(queue)[records.RUNS]
        events = stand.lab.list("Event", "default")
        assert "Promoted" in {e["reason"] for e in events if e["involvedObject"]["name"] == QUEUE}

        status, said, err = held(stand)
        assert (status, said.get("outcome")) == (0, "held"), err
        assert forms.condition(stand.queue(), "Active")["reason"] == "Stopped"

        one_of_two(stand)
        killed(stand)
        edited(stand)


def held(stand: Stand) -> tuple[int, dict[str, Any], str]:
    """Hold the queue."""
    done = stand.call("promote", "--queue", f"clusterqueue/{QUEUE}", "--hold", "--json")
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def one_of_two(stand: Stand) -> None:
    """Promote twice at once: one wins, the other names it."""
    target, start = stand.target(), threading.Barrier(2)
    said: dict[str, str] = {}

    def promote(who: str) -> None:
        record = records.Record(who, "rows", {"run-1": "ab" * 32}, None, times.now())
        start.wait()
        try:
            switching.Switch(stand.lab.api, record, 30.0).open(target)
            said[who] = "opened"
        except targets.Refused as refused:
            said[who] = str(refused)

    both = [threading.Thread(target=promote, args=(who,)) for who in ("alice", "bob")]
    for each in both:
        each.start()
    for each in both:
        each.join(60)
    (winner,) = [who for who, text in said.items() if text == "opened"]
    (loser,) = {"alice", "bob"} - {winner}
    assert f"is being promoted by {winner}" in said[loser]
    assert told(stand.queue())[records.BY] == winner
    held_by = switching.Switch(stand.lab.api, records.Record(winner, "", {}, None, times.now()), 30.0)
    assert held_by.hold(stand.target()).policy == switching.HOLD


def killed(stand: Stand) -> None:
    """Kill a promotion while the queue is open on trial: it is stopped again, and still the queue that the run saw."""
    before = stand.target().queue.generation
    with subprocess.Popen(
        stand.command("promote", *stand.opening("held.yaml")),
        cwd=stand.folder,
        env=lab.plain_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as promotion:
        open_ = (records.TRIAL, "None")
        lab.until(
            "on trial",
            lambda: (told(q := stand.queue()).get(records.STATE), q["spec"]["stopPolicy"]) == open_,
        )
        promotion.send_signal(signal.SIGKILL)
        _, err = promotion.communicate(timeout=60)
        assert promotion.returncode == -signal.SIGKILL
    assert "its promotion was killed while it was tried out" in err
    now = stand.target()
    assert now.policy == "Hold"
    assert {before, now.queue.generation} <= {*records.unchanged(now)}


def edited(stand: Stand) -> None:
    """Change the queue and change it back: its generation tells, and it stays closed."""
    for strategy in ("StrictFIFO", "BestEffortFIFO"):
        stand.lab.patch("ClusterQueue", QUEUE, {"spec": {"queueingStrategy": strategy}})
    status, said, err = stand.promote()
    assert (status, said.get("outcome")) == (1, "refused"), err
    assert "its spec was written since (generation" in err
    assert stand.queue()["spec"]["stopPolicy"] == "Hold"


# -- the gatekeeper ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def keeping(stand: Stand, policy: str):
    """Run a gatekeeper; it is killed at the end if it runs still."""
    words = ("--check", CHECK, "--runs", str(stand.run), "--policy", policy)
    with subprocess.Popen(
        stand.command("gatekeeper", *words),
        cwd=stand.folder,
        env=lab.plain_environment(),
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def job(stand: Stand, name: str) -> dict[str, Any]:
    """Return a Job of one GPU in the checked queue, which runs until it is deleted."""
    container = {
        "name": "c", "image": stand.lab.cluster.images["python"], "resources": {"limits": {GPU: "1"}},
        "command": ["python3", "-c", "import signal; signal.pause()"],
    }  # fmt: skip
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": CHECKED},
        },
        "spec": {"suspend": True, "template": {"spec": pod}},
    }


def workload(stand: Stand, name: str) -> dict[str, Any]:
    """Return the Workload of a Job, empty until Kueue has made it."""
    api = stand.lab.api
    uid = api.get(api.info("batch/v1", "Job"), name, "default")["metadata"]["uid"]
    found = api.list(forms.WORKLOAD, "default", labels=f"kueue.x-k8s.io/job-uid={uid}")
    return dict(found[0]) if found else {}


def active(stand: Stand, status: str) -> dict[str, Any]:
    """Wait until the check's condition Active is so; return it."""
    lab.until(f"the check's Active is {status}", lambda: seen(stand).get("status") == status)
    return dict(seen(stand))


def seen(stand: Stand) -> Any:
    """Return the check's condition Active."""
    return forms.condition(stand.lab.api.get(forms.CHECK, CHECK), "Active")


def test_the_gatekeeper_of_a_real_kueue(stand, tell):
    """Active on evidence, closed on another machine; nothing is admitted while it is gone; closed at the expiry."""
    decided = stand.call("gate", str(stand.run), "--policy", "rows.yaml", "--json")
    assert decided.returncode == 0, decided.stderr
    gate = json.loads(decided.stdout)
    oldest = min(times.parse_time(row["at"]) for row in gate["rows"])
    with as_account(stand, "gatekeeper"), contextlib.ExitStack() as jobs:
        with keeping(stand, "rows.yaml") as first:
            assert active(stand, "True")["reason"] == "EvidenceAccepted"
            lab.until("the ClusterQueue is Active", lambda: forms.is_true(stand.queue(CHECKED), "Active"))
            jobs.enter_context(stand.lab.having(job(stand, "gate-first")))
            lab.until(
                "the first is admitted", lambda: forms.is_true(workload(stand, "gate-first"), "Admitted")
            )
            with another_machine(stand):
                assert active(stand, "False")["reason"] == "GateClosed"
                inactive(stand)
                assert forms.is_true(workload(stand, "gate-first"), "Admitted")
            active(stand, "True")
            lab.until("the ClusterQueue is Active", lambda: forms.is_true(stand.queue(CHECKED), "Active"))
            peak = memory(first)
        assert first.returncode == -signal.SIGKILL
        # Its Lease would lapse by itself after 15 s, which the tests on the embedded cluster wait for.
        stand.lab.api.delete(leases.LEASE, f"gpucluster-gatekeeper-{CHECK}", "default")
        jobs.enter_context(stand.lab.having(job(stand, "gate-second")))
        lab.until("the second holds quota", lambda: forms.asks(workload(stand, "gate-second"), CHECK))
        assert seen(stand)["status"] == "True"
        assert forms.is_true(stand.queue(CHECKED), "Active")
        soon, began = stand.policy("soon", "1d", "INV-002"), times.now()
        with keeping(stand, soon) as second:
            # Kueue had all the time until now to admit it without a controller.
            assert forms.asks(workload(stand, "gate-second"), CHECK)
            lab.until(
                "the second is admitted", lambda: forms.is_true(workload(stand, "gate-second"), "Admitted")
            )
            # A busy machine takes its time for a reading; this one has to end before the expiry.
            end = times.now() + timedelta(seconds=SOON) + 2 * (times.now() - began)
            end = end.replace(microsecond=0)
            stand.policy("soon", f"{(end - oldest).total_seconds() / 60:.6f}m", "INV-002")
            # It reads the gate anew for whoever asks.
            jobs.enter_context(stand.lab.having(job(stand, "gate-asks")))
            text = f"until {times.format_time(end)}"
            lab.until(f"accepted {text}", lambda: text in seen(stand)["message"])
            closed = active(stand, "False")
            late = (times.parse_time(closed["lastTransitionTime"]) - end).total_seconds()
            assert closed["reason"] in ("EvidenceExpired", "GateClosed")
            assert 0 <= late <= 2
            inactive(stand)
            jobs.enter_context(stand.lab.having(job(stand, "gate-third")))
            lab.until("the third is inadmissible", lambda: inadmissible(workload(stand, "gate-third")))
            for name in ("gate-first", "gate-second"):
                assert forms.is_true(workload(stand, name), "Admitted")
            peak = max(peak, memory(second))
    assert peak < LIMIT
    tell(
        "shown",
        f"gatekeeper on a real Kueue: closed {late:.0f} s after the expiry, at most {peak / 1024:.1f} MiB\n",
    )


def inactive(stand: Stand) -> None:
    """Wait until the checked ClusterQueue is not Active, because of its check."""

    def closed() -> bool:
        found = forms.condition(stand.queue(CHECKED), "Active")
        return (found["status"], found["reason"]) == ("False", "AdmissionCheckInactive")

    lab.until("the ClusterQueue is inactive", closed)


def inadmissible(workload: Mapping[str, Any]) -> bool:
    """Report whether Kueue says that a Workload gets no quota, because its queue is inactive."""
    found = forms.condition(workload, "QuotaReserved")
    return found.get("status") == "False" and "inactive" in found.get("message", "")


def memory(process: subprocess.Popen[bytes]) -> int:
    """Return the most memory that a process has had, in KiB."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


@contextlib.contextmanager
def another_machine(stand: Stand):
    """Let a worker be another machine of the same name, while its kubelet stands still and cannot say otherwise."""
    name = stand.lab.workers[-1]
    machine = stand.lab.get("Node", name)["status"]["nodeInfo"]["machineID"]
    stand.lab.inside(name, "kill -STOP $(pidof kubelet)")
    try:
        change = {"status": {"nodeInfo": {"machineID": "f" * 32}}}
        stand.lab.patch("Node", name, change, subresource="status")
        yield
    finally:
        stand.lab.inside(name, "kill -CONT $(pidof kubelet)")

    def itself() -> bool:
        return bool(stand.lab.get("Node", name)["status"]["nodeInfo"]["machineID"] == machine)

    lab.until(f"{name} is itself again", itself)
