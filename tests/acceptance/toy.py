"""Runs, clusters and policies made by hand, so that each test says only what it is about."""

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pytest_gpucluster.acceptance import decision, policy
from pytest_gpucluster.acceptance.runs import Attempt, Run
from pytest_gpucluster.evidence.objects import clusters
from pytest_gpucluster.profile import load
from pytest_gpucluster.report.suites import load_suites

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
NODES = ("gpu-0", "gpu-1", "gpu-2")


def ago(**time):
    """Return a time before the decision."""
    return NOW - timedelta(**time)


def node(name, state="", gpus=(), **facts):
    """Return a node of eight GPUs."""
    return clusters.Node(
        name, state, {"uid": f"u-{name}", "machineID": f"m-{name}", **facts}, 8, frozenset(gpus)
    )


def cluster(*nodes, uid="c-1", **versions):
    """Return a cluster of these nodes, of three ordinary ones by default."""
    made = nodes or tuple(node(name) for name in NODES)
    return clusters.Cluster(uid, {each.name: each for each in made}, versions)


def attempt(row, verdict="pass", *, at=None, nodes=NODES, red=(), observed="as seen"):
    """Return one row as a run decided it."""
    red = frozenset(red) or (frozenset(nodes) if verdict == "fail" else frozenset())
    return Attempt(row, verdict, "", at or ago(hours=1), frozenset(nodes), red, observed, "mend it")


def run(name, *attempts, of=None, profile=None, **more):
    """Return a run of the embedded profile."""
    rows = {each.row: dataclasses.replace(each, run=name) for each in attempts}
    values = {**profile_of().model_dump(mode="json"), **(profile or {})}
    ended = max((each.at for each in attempts if each.at), default=NOW).isoformat()
    found = Run(
        Path(name), name, f"digest of {name}", values, of or cluster(), rows, frozenset(rows), (), (), ended
    )
    return dataclasses.replace(found, **more)


def profile_of(**changed):
    """Return the embedded profile, with changes."""
    return load("embedded").profile.model_copy(update=changed)


def wants(*rows, stages=None, age=timedelta(days=7), **more):
    """Return a policy of one stage with these rows, or of several."""
    made = stages or (policy.Stage("only", rows=rows),)
    base = policy.Policy("toy", "", age, policy.ALL, policy.REFUSED, made, {}, {}, "toy")
    return dataclasses.replace(base, **more)


def decide(runs, wanted, *, now=None, profile=None):
    """Return the decision of the toy gate."""
    return decision.decide(
        runs, wanted, profile or profile_of(), NOW, registry=load_suites(), now=now or cluster()
    )
