"""Putting the control plane together, inside a running asyncio loop."""

from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.embedded import default_scheduler, native, policy_engine
from pytest_gpucluster.embedded.access import aggregation, bootstrap
from pytest_gpucluster.embedded.controllers import (
    batch_job,
    finished_jobs,
    garbage,
    lost_pods,
    namespaces,
    pod_admission,
    volumes,
)
from pytest_gpucluster.embedded.native.gates import Gates
from pytest_gpucluster.embedded.resources import build_table
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store


def build(config: Mapping[str, Any]) -> Runtime:
    """Return a control plane with its first objects and all controllers running.

    Args:
        config: What was read from standard input.
    """
    with_volcano = bool(config.get("volcano", True))
    with_kueue = config.get("kueue") not in (None, False)
    with_jobset = bool(config.get("jobset"))
    table = build_table(
        volcano=with_volcano, kueue=with_kueue, native=Gates.of(config).groups, jobset=with_jobset
    )
    runtime = Runtime(Store(table), config)
    pod_admission.install(runtime)
    policy_engine.install(runtime)
    native.install(runtime)
    namespaces.create_first_objects(runtime.store, config.get("networks") or ())
    bootstrap.create_first_roles(runtime.store)
    if with_volcano:
        from pytest_gpucluster.embedded.volcano import install

        install(runtime)
    if with_kueue:
        from pytest_gpucluster.embedded.kueue.installation import install as install_kueue

        install_kueue(runtime)
    if with_jobset:
        from pytest_gpucluster.embedded.jobset.installation import install as install_jobset

        install_jobset(runtime)
    for part in (
        aggregation,
        garbage,
        namespaces,
        lost_pods,
        batch_job,
        finished_jobs,
        volumes,
        default_scheduler,
    ):
        part.start(runtime)
    return runtime
