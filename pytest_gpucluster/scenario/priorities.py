"""PriorityClasses of our own: private to a scenario and a run, for they lie outside our namespace."""

from typing import Any

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import site as sites

Obj = dict[str, Any]


def manifest(scenario: str, run_id: str, value: int) -> Obj:
    """Return a PriorityClass that is nobody's default.

    Args:
        scenario: name of the scenario.
        run_id: the run.
        value: its value; pods without a class have 0.
    """
    name = names.safe_name("gpucluster", scenario, str(value), sites.short_run(run_id))
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "globalDefault": False,
        "description": f"of a conformance run, for scenario {scenario}",
    }
