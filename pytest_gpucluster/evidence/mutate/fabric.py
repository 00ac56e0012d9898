"""Departures of the traffic between ranks."""

from pytest_gpucluster.evidence.mutate import base

MUTANTS: base.Table = {
    "fabric.another-interface": (
        "one member is connected over an interface that was not declared",
        base.on("reduced", lambda w: w.update(interfaces={"net1": 1}), alone=True),
    ),
    "fabric.wrong-sum": (
        "one member's all-reduce gave another sum",
        base.on("reduced", lambda w: w.update(got=-1.0, ok=False), alone=True),
    ),
    "fabric.unseen": ("one member does not tell its connections", base.drop("reduced", alone=True)),
}
