"""What evidence says of itself: what judges are told, where it comes from, and what kept a scenario from its end."""

import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.kube import errors
from pytest_gpucluster.plain import times
from pytest_gpucluster.scenario import site as sites
from pytest_gpucluster.scenario import stage, submit
from pytest_gpucluster.scenario.not_applicable import NotApplicable
from pytest_gpucluster.workload import spec as gangs

if TYPE_CHECKING:
    from pytest_gpucluster.profile import Profile

DECLARED = (
    "scheduler", "queue", "gpu_resource", "gpus_per_node", "scheduler_period", "window", "bind_spread", "start_spread",
    "recovery", "interface",
)  # fmt: skip
"""What every judge is told of the profile, under the profile's own names."""


def problem(verdict: str, text: object) -> dict[str, Any]:
    """Return what kept a scenario from its end, as the header has it."""
    fix = str(getattr(text, "fix", ""))
    return {"verdict": verdict, "text": str(text), **({"fix": fix} if fix else {})}


def problem_of(error: Exception) -> dict[str, Any]:
    """Return what an exception that ended a scenario makes of its rows."""
    if isinstance(error, NotApplicable | gangs.WorkloadError):
        return problem("not_applicable", error)
    if isinstance(error, errors.EnvironmentProblem | OSError):
        return problem("environment", error)
    if isinstance(error, errors.ApiError):
        passing = error.denied or error.code >= 500 or error.code == 429
        return problem("environment" if passing else "inconclusive", error)
    if isinstance(error, submit.MalformedManifest):
        return problem("inconclusive", error)
    # A scenario's own fault must still leave evidence, and clean up.
    text = f"the scenario itself failed: {type(error).__name__}: {error}"
    return {**problem("inconclusive", text), "trace": "".join(traceback.format_exception(error))}


def verdict_of(error: Exception) -> str | None:
    """Return what an error in a test that acts itself says of the cluster, None where it is the test's own."""
    if not isinstance(error, errors.GpuClusterError | NotApplicable | gangs.WorkloadError):
        return None
    verdict = str(problem_of(error)["verdict"])
    return verdict if verdict in {"environment", "not_applicable"} else None


def given(made: stage.Stage) -> dict[str, Any]:
    """Return what judges are told of a scenario: who plays which role, and what it said itself."""
    roles: dict[str, list[dict[str, str]]] = {}
    for handle in made.handles:
        who = {"kind": handle.kind, "name": handle.name, "uid": handle.uid}
        roles.setdefault(handle.role, []).append(who)
    return {"roles": roles, **made.given}


def _more(profile: "Profile") -> dict[str, Any]:
    """Return what is told of further schedulers, Kueue, a second interface, a topology and elastic jobs."""
    kueue, secondary, further = profile.kueue, profile.secondary, profile.further_schedulers
    topology = profile.topology
    return {
        **({"further_schedulers": list(further)} if further else {}),
        **({} if kueue is None else {"kueue": kueue.model_dump()}),
        **({} if secondary is None else {"secondary": secondary.model_dump()}),
        # None says that none is declared; evidence without the key does not say what was.
        "topology": None
        if topology is None
        else {"levels": list(topology.levels), "required": topology.level},
        **({} if profile.elastic is None else {"elastic": profile.elastic.model_dump()}),
    }


def header(
    scenario: str,
    where: tuple["Profile", sites.ClusterLike, str],
    source: Mapping[str, Any],
    told: Mapping[str, Any],
    kept: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the header of a scenario's evidence.

    Args:
        scenario: its name.
        where: profile, cluster and namespace.
        source: which run and worker took it down, after how many requests.
        told: what the scenario tells judges beside the standard facts.
        kept: what kept it from its end, None for nothing.
    """
    profile, cluster, namespace = where
    standard = {
        **{name: getattr(profile, name) for name in DECLARED},
        "budgets": dict(profile.budgets),
        "features": sorted(cluster.features),
        **_more(profile),
        "namespace": namespace,
    }
    found: dict[str, Any] = {
        "scenario": scenario,
        "clock": "receipt",
        "given": {**standard, **told},
        "source": {
            "cluster": cluster.name,
            "profile": profile.name,
            "namespace": namespace,
            "frozen": times.format_time(times.now()),
            **source,
        },
    }
    return found if kept is None else {**found, "problem": dict(kept)}
