"""Evidence mutants: departures planted into evidence of a passing scenario, in milliseconds and without a cluster.

Each mutant is a pure function of an evidence; one that finds nothing to change returns the evidence as it is. They
show that a judge can fail, and that a judge which lacks its ground falls silent instead of passing. One module an
area; `base` has the pieces. Which rows each one flips: `suites/defects`.
"""

from pytest_gpucluster.mutants import (
    additions,
    earlier,
    exchanges,
    fabric,
    flickers,
    gang,
    health,
    inventory,
    inventory_nodes,
    inventory_offers,
    kueue,
    lifecycle,
    lifecycle_jobs,
    lifecycle_reboot,
    mfu,
    mishaps,
    numa,
    numa_locality,
    plugins,
    refusal,
    refusal_admission,
    refusal_contention,
    removals,
    rendezvous,
    rendezvous_prepared,
    rendezvous_secondary,
    rendezvous_two_jobs,
    shifts,
    trainer,
    watch,
)
from pytest_gpucluster.mutants.base import Mutant, Table, each, edited, with_lines, without

__all__ = ["MUTANTS", "Mutant", "each", "edited", "with_lines", "without"]

MUTANTS: Table = {
    name: entry
    for table in (
        additions.MUTANTS,
        refusal_admission.MUTANTS,
        flickers.MUTANTS,
        refusal_contention.MUTANTS,
        removals.MUTANTS,
        earlier.MUTANTS,
        exchanges.MUTANTS,
        fabric.MUTANTS,
        gang.MUTANTS,
        health.MUTANTS,
        inventory.MUTANTS,
        inventory_nodes.MUTANTS,
        kueue.MUTANTS,
        lifecycle.MUTANTS,
        mfu.MUTANTS,
        mishaps.MUTANTS,
        shifts.MUTANTS,
        numa.MUTANTS,
        inventory_offers.MUTANTS,
        numa_locality.MUTANTS,
        plugins.MUTANTS,
        rendezvous_prepared.MUTANTS,
        lifecycle_reboot.MUTANTS,
        refusal.MUTANTS,
        rendezvous.MUTANTS,
        lifecycle_jobs.MUTANTS,
        trainer.MUTANTS,
        rendezvous_two_jobs.MUTANTS,
        watch.MUTANTS,
        rendezvous_secondary.MUTANTS,
    )
    for name, entry in table.items()
}
"""All mutants by name; the name's first part is the area."""
