"""Departures of the world that the ranks form."""

from pytest_gpucluster.evidence.mutate import base

MUTANTS: base.Table = {
    "rendezvous.drop-a-rank": (
        "one rank printed nothing",
        base.drop("rank", alone=True),
    ),
    "rendezvous.rank-twice": (
        "one rank exists twice",
        base.on("rank", lambda w: w.update(rank=0), alone=True),
    ),
    "rendezvous.wrong-sum": (
        "one rank got another sum",
        base.on("sum", lambda w: w.update(got=-1.0), alone=True),
    ),
    "rendezvous.two-worlds": (
        "one rank is in a smaller world",
        base.on("rank", lambda w: w.update(world=1), alone=True),
    ),
}
