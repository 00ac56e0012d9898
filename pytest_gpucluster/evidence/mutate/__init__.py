"""Evidence mutants: departures planted into evidence of a passing scenario, in milliseconds and without a cluster.

Each mutant is a pure function of an evidence; one that finds nothing to change returns the evidence as it is. They
show that a judge can fail, and that a judge which lacks its ground falls silent instead of passing. One module an
area; `base` has the pieces. Which rows each one flips: `suites/defects`.
"""

from pytest_gpucluster.evidence.mutate import (
    added,
    admission,
    at_no_time,
    contention,
    dropped,
    earlier,
    exchanged,
    fabric,
    gang,
    health,
    installation,
    inventory,
    kueue,
    lifecycle,
    mfu,
    mishaps,
    moved,
    numa,
    offers,
    parts,
    plugins,
    prepared,
    reboot,
    refusal,
    rendezvous,
    small_jobs,
    trainer,
    two_jobs,
    watch,
    wired,
)
from pytest_gpucluster.evidence.mutate.base import Mutant, Table, each, edited, with_lines, without

__all__ = ["MUTANTS", "Mutant", "each", "edited", "with_lines", "without"]

MUTANTS: Table = {
    name: entry
    for table in (
        added.MUTANTS,
        admission.MUTANTS,
        at_no_time.MUTANTS,
        contention.MUTANTS,
        dropped.MUTANTS,
        earlier.MUTANTS,
        exchanged.MUTANTS,
        fabric.MUTANTS,
        gang.MUTANTS,
        health.MUTANTS,
        inventory.MUTANTS,
        installation.MUTANTS,
        kueue.MUTANTS,
        lifecycle.MUTANTS,
        mfu.MUTANTS,
        mishaps.MUTANTS,
        moved.MUTANTS,
        numa.MUTANTS,
        offers.MUTANTS,
        parts.MUTANTS,
        plugins.MUTANTS,
        prepared.MUTANTS,
        reboot.MUTANTS,
        refusal.MUTANTS,
        rendezvous.MUTANTS,
        small_jobs.MUTANTS,
        trainer.MUTANTS,
        two_jobs.MUTANTS,
        watch.MUTANTS,
        wired.MUTANTS,
    )
    for name, entry in table.items()
}
"""All mutants by name; the name's first part is the area."""
