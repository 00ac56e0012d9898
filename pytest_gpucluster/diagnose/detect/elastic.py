"""Elastic jobs in trouble: below their minimum, restarted again and again, re-formed without rest, stores on GPU nodes.

What torchrun prints of itself decides, whoever's program it runs; the smallest number of workers is read from its
arguments. What a program prints is not: a job without these lines is not accused.
"""

import re
from collections.abc import Iterator, Mapping

from pytest_gpucluster.diagnose.detect.complaining import command_line, complaints, is_bad
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault, note
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Line
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.objects.pods import pods as every_pod
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause

NNODES = re.compile(r"--nnodes[= ]\"?(?P<low>\d+):(?P<high>\d+)")
ENDPOINT = re.compile(r"--rdzv[-_]endpoint[= ]\"?(?P<host>[A-Za-z0-9][\w.-]*)(?::\d+)?")
FAILED = re.compile(
    r"Worker group FAILED\. (?P<left>\d+)/(?P<most>\d+) attempts left; will restart worker group"
)
JOINED = re.compile(r"Detected (?P<many>\d+) new nodes from group_rank=\d+; will restart worker group")
ROOT = re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<rank>\d+)")
FOLLOWED = re.compile(
    r"Connection (?:closed|reset) by peer|Connection refused|Broken pipe|NCCL error: remote|remote process exited|"
    r"Timed out waiting \d+ ?ms|Watchdog caught collective operation timeout|DistStoreError",
    re.IGNORECASE,
)
"""What a rank prints that fails because another one is gone, or did not come."""
KILLED = re.compile(r"Unable to shutdown process \d+ via \S*(?P<sent>SIG\w+|\b15\b)?.*forcefully exiting via")
OFTEN = 3
"""Restarts, or changes of the world, in one log from which on there is more to it than one loss."""
GPU = re.compile(r"/gpu$|gpu\.intel\.com/|nvidia\.com/mig-")


def _limits(s: Situation) -> tuple[int, int] | None:
    """Return the fewest and the most workers that torchrun was told, None for a job of fixed size."""
    for pod in s.pods:
        text = command_line(pod.last)
        found = NNODES.search(text)
        told = _variables(pod).get("PET_NNODES", "")
        low, _, high = (found["low"], ":", found["high"]) if found else told.partition(":")
        if low.isdigit() and high.isdigit() and int(low) < int(high):
            return int(low), int(high)
    return None


def _variables(pod: PodStory) -> Mapping[str, str]:
    """Return the variables that a pod's containers are given as plain values."""
    return {
        str(entry.get("name")): str(entry.get("value") or "")
        for container in fields.containers(pod.last)
        for entry in fields.items(container, "env")
    }


def _workers(s: Situation) -> list[PodStory]:
    """Return the pods that run a launcher with a range of workers."""
    return [
        pod
        for pod in s.pods
        if NNODES.search(command_line(pod.last)) or ":" in _variables(pod).get("PET_NNODES", "")
    ]


def below_minimum(s: Situation) -> Iterator[Suspect]:
    """Fewer workers run than torchrun needs: those that do wait and hold what they have.

    Where one has done its work the others are about to: nobody waits for workers then.
    """
    limits, workers = _limits(s), _workers(s)
    if limits is None or s.ended or s.gone:
        return
    low, high = limits
    running = [pod for pod in workers if pod.phase == "Running" and pod.deleting is None]
    waits = [pod for pod in workers if pod not in running]
    done = any(pod.phase == "Succeeded" for pod in waits)
    if not running or len(running) >= low or s.age < STARTS or done:
        return
    held: dict[str, int] = {}
    for pod in running:
        for resource in fields.scarce_resources(pod.last):
            held[resource] = held.get(resource, 0) + int(fields.requested(pod.last, resource))
    holding = f", and hold {wording.listed([f'{n} {r}' for r, n in held.items()], 3)}" if held else ""
    cause = Cause(
        f"the elastic world is below its minimum: {len(running)} of at least {low} workers (at most {high}) run; no "
        f"step is taken, and they wait until join_timeout ends them{holding}",
        f"bring the missing workers back, or start the job with a smaller minimum (--nnodes={len(running)}:{high})",
    )
    text = f"running: {wording.listed([pod.where for pod in running], 4)}"
    lacking = wording.listed([f"{pod.name} ({pod.phase or 'Pending'})" for pod in waits], 4)
    text += f"; not running: {lacking}" if waits else ""
    yield fault(
        "below-minimum", Stage.RUN, cause, text, LIKELY, where=wording.places(running), rows=("ELA-003", "ELA-001"),
        evidence=tuple(pod.keys["created"] for pod in running[:4]), symptom=bool(waits),
    )  # fmt: skip


STARTS = 60.0
"""Seconds after which a job that still lacks workers is no longer starting."""


def _hits(s: Situation, pattern: re.Pattern[str]) -> dict[str, list[tuple[Line, re.Match[str]]]]:
    """Return the lines of each pod that match, each once."""
    found: dict[str, list[tuple[Line, re.Match[str]]]] = {}
    for pod, lines in s.logs.items():
        for line in lines:
            hit = pattern.search(str(line.data.get("line") or ""))
            if hit:
                found.setdefault(pod, []).append((line, hit))
    return found


def restart_storm(s: Situation) -> Iterator[Suspect]:
    """Agents start their ranks again and again: which member fails by itself, and which only follow."""
    found = {pod: hits for pod, hits in _hits(s, FAILED).items() if len(hits) >= OFTEN}
    if not found or s.phase == "Completed":
        return
    by_itself = sorted(pod for pod in found if not _follows(s, pod))
    worst = max(found, key=lambda pod: (pod in by_itself, len(found[pod])))
    _, last = found[worst][-1]
    codes = [hit["code"] for hits in (_hits(s, ROOT).get(worst, []),) for _, hit in hits]
    rank = f", exit code {codes[-1]}" if codes else ""
    where = next((pod.where for pod in s.pods if pod.name == worst), f"Pod/{worst}")
    # Whose log is silent of others may be cut: the end of a rank of its own must be there too.
    one = len(by_itself) == 1 and bool(codes)
    if one:
        text = f"a rank in {worst} fails each time it is started{rank}; the others fail because it is gone"
    else:
        names = wording.listed(by_itself if len(by_itself) > 1 else sorted(found), 4)
        text = f"ranks fail each time they are started{rank}; which one fails first is not told apart among {names}"
    cause = Cause(
        f"restart storm: {text}; {last['left']} of {last['most']} restarts are left, then every agent ends",
        "read the first error in that member's log before the restart; if it is on one node each time, cordon the "
        "node; --max-restarts bounds the storm",
    )
    seen = wording.listed([f"{pod}: {len(hits)} restarts" for pod, hits in sorted(found.items())], 4)
    yield fault(
        "restart-storm", Stage.RUN, cause, seen, SURE, where=(where,),
        rows=("ELA-004", "ELA-009"), evidence=tuple(line.key for line, _ in found[worst][-4:]),
        look=(f"kubectl logs{s.space} {worst}",),
    )  # fmt: skip


def _follows(s: Situation, pod: str) -> bool:
    """Report whether the ranks of a pod fail because a peer is gone."""
    return any(FOLLOWED.search(str(line.data.get("line") or "")) for line in s.logs.get(pod, ()))


def flapping(s: Situation) -> Iterator[Suspect]:
    """The world forms anew again and again since members come and go, not since a rank fails."""
    found = {pod: hits for pod, hits in _hits(s, JOINED).items() if len(hits) >= OFTEN}
    if not found or s.phase == "Completed" or any(len(hits) >= OFTEN for hits in _hits(s, FAILED).values()):
        return
    most = max(found, key=lambda pod: len(found[pod]))
    gone = sorted(
        {
            pod.where
            for pod in (s.gang.pods if s.gang else ())
            if pod.deleted is not None or pod.deleting is not None
        }
    )
    who = f"; members that left: {wording.listed(gone, 4)}" if gone else ""
    cause = Cause(
        f"the rendezvous flaps: members joined {len(found[most])} times, and each time all ranks start again from "
        f"their checkpoint{who}",
        "find why members leave (preemption, a flaky node: cordon it); resize less often, and save more often than the "
        "world changes",
    )
    seen = wording.listed([f"{pod}: {len(hits)} times" for pod, hits in sorted(found.items())], 4)
    yield fault(
        "rendezvous-flapping", Stage.RUN, cause, seen, LIKELY, rows=("ELA-009",),
        evidence=tuple(line.key for line, _ in found[most][-4:]),
        where=tuple(f"Pod/{pod}" for pod in sorted(found)[:8]),
    )  # fmt: skip


def store_on_gpu_node(s: Situation) -> Iterator[Suspect]:
    """What keeps the membership is a pod of its own and lies on a GPU node, or asks for a GPU."""
    hosts = {found["host"] for pod in s.pods if (found := ENDPOINT.search(command_line(pod.last)))}
    hosts |= {_variables(pod).get("PET_RDZV_ENDPOINT", "").partition(":")[0] for pod in s.pods} - {""}
    mine = {pod.uid for pod in _workers(s)}
    for host in sorted(hosts):
        for pod in _behind(s, host.partition(".")[0]):
            if pod.uid in mine or pod.deleted is not None:
                continue
            asked = {r: n for r, n in fields.demands(pod.last).items() if GPU.search(r) and n}
            gpus = _gpus_of(s, pod.node)
            if not asked and not gpus:
                continue
            what = f"asks for {wording.listed([f'{int(n)} {r}' for r, n in asked.items()])}" if asked else ""
            what = what or f"runs on {pod.node}, which offers {wording.listed(gpus)}"
            cause = Cause(
                f"the rendezvous store {pod.name} {what}: it takes from training what training could use, and ends all "
                "jobs that meet there if the node is drained",
                "give it a node selector for nodes without GPUs and no GPU resource; replace it between two jobs",
            )
            yield note(
                "store-on-gpu-node", Stage.RUN, cause, f"--rdzv-endpoint names {host}", where=(pod.where,),
                rows=("ELA-005",), evidence=(pod.keys["created"],),
            )  # fmt: skip


def _behind(s: Situation, name: str) -> list[PodStory]:
    """Return the pods that a name leads to: the pod of that name, or those that the Service of that name selects."""
    found = [pod for pod in every_pod(s.evidence) if pod.namespace == s.namespace and pod.name == name]
    service = s.object("Service", name, s.namespace)
    selector = fields.sub(service.object, "spec", "selector") if service is not None else {}
    if selector:
        found += [
            pod
            for pod in every_pod(s.evidence)
            if pod.namespace == s.namespace
            and all(pod.labels.get(key) == value for key, value in selector.items())
        ]
    return list({pod.uid: pod for pod in found}.values())


def _gpus_of(s: Situation, node: str) -> list[str]:
    """Return the GPU resources that a node offers."""
    line = s.object("Node", node)
    offers = fields.sub(line.object, "status", "allocatable") if line is not None else {}
    return [
        f"{count} {name}" for name, count in offers.items() if GPU.search(str(name)) and str(count) != "0"
    ]


def killed_after_grace(s: Situation) -> Iterator[Suspect]:
    """Ranks that did not end in time after a signal were killed by torchrun: what they did at their end was cut off."""
    found = complaints(s, KILLED, anywhere=True)
    if not found:
        return
    pods = sorted({c.pod for c in found})
    cause = Cause(
        "torchrun killed ranks that did not end within its grace (--shutdown-timeout, 30 s by default) after it had "
        "sent them a signal: a checkpoint that they wrote meanwhile is cut off",
        "let the program end on SIGTERM (save, then leave), or raise --shutdown-timeout; "
        "terminationGracePeriodSeconds of the pod must be longer than that",
    )
    more = {
        "where": tuple(f"Pod/{pod}" for pod in pods[:8]),
        "evidence": tuple(c.key for c in found[:4]),
        "rows": ("ELA-001", "ELA-008"),
    }
    seen = f"{wording.listed(pods, 4)}: {found[-1].said!r}"
    if is_bad(s, found) and s.failed:
        yield fault("killed-after-grace", Stage.END, cause, seen, LIKELY, symptom=True, **more)
        return
    yield note("killed-after-grace", Stage.END, cause, seen, **more)
