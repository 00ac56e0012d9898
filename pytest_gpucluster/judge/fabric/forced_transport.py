"""FAB-010: with the declared network forced, the communicator forms.

NCCL is told the one network that it may use (NCCL_NET): what would else be a silent fallback is then an error.
"""

from pytest_gpucluster.evidence.hardware.collectives import Told
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import bus_bandwidth, rank_logs, shared
from pytest_gpucluster.measure.nccl import Facts
from pytest_gpucluster.requirement import Cause, Finding, Verdict

REQUIRED = "with NCCL_NET set to the declared network, all ranks form one communicator over it"

VARIABLE = "NCCL_NET"
ABSENT = Cause(
    "the declared network cannot be used in these pods: no adapter, a device file that may not be opened, a plugin "
    "that is not in the image, or too little locked memory",
    "request the RDMA resource of the profile, give IPC_LOCK (or an unlimited memlock), look at /dev/infiniband in a "
    "pod, and put the network's plugin into the image",
)
NAME = Cause(
    "NCCL uses another name for the network",
    "read `Using network NAME` in the log of a run that is not forced, and declare it as fabric.network",
)
OVERRIDDEN = Cause(
    "the image's entrypoint, or what starts the ranks, changes NCCL_NET after the pod has set it",
    "compare the pod's variables with those of a rank (/proc/PID/environ); NCCL's configuration files never replace a "
    "variable that is set",
)
REPLACED = Cause(
    "an environment plugin of NCCL (libnccl-env.so) gives NCCL another value than the process has",
    "look for `ENV/Plugin` in the ranks' logs",
)


@subjects.judge
def forms(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-010."""
    gang = shared.subject(evidence, given)
    told = shared.told(evidence, gang)
    forced = str(given.get("forced") or "")
    if not forced:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, "no network was forced", gang)
    nothing = shared.nobody(evidence, told, gang, REQUIRED)
    if nothing is not None:
        return nothing
    unfinished = bus_bandwidth.incomplete(evidence, given, told, gang, REQUIRED)
    facts = rank_logs.facts(evidence, given, gang)
    failed = [rank for rank in told.ranks if rank.failed is not None or rank.stalled is not None]
    if failed:
        word = failed[0].failed or failed[0].stalled
        why = "" if word is None else str(word.data.get("error") or f"hangs in {word.data.get('collective')}")
        text = f"{VARIABLE}={forced}: {failed[0].where}: {why}"
        return wording.finding(
            Verdict.FAIL, REQUIRED, text, gang, causes=(ABSENT, NAME), violation=True,
            where=shared.places(failed), evidence=shared.keys(told),
        )  # fmt: skip
    return unfinished or _decided(evidence, given, (told, facts), gang)


def _decided(
    evidence: Evidence, given: subjects.Given, seen: tuple[Told, Facts], gang: Gang | None
) -> Finding:
    """Judge by the log what was formed, and over what."""
    told, facts = seen
    forced, world = str(given.get("forced")), shared.expected(given, told)
    found = wording.Findings(REQUIRED, gang, evidence=rank_logs.keys(evidence, gang))

    if facts.nranks is None:
        text = "the ranks' logs show no communicator"
        return found.inconclusive(text, rank_logs.SILENT)
    if world is not None and facts.nranks != world:
        text = f"the largest communicator has {facts.nranks} of {world} ranks"
        return found.fail(text, ABSENT, violation=True)
    others = sorted({path.name for path in facts.paths if path.carrier and not _same(path.name, forced)})
    if others:
        ranks = sorted({path.rank for path in facts.paths if path.name in others})
        who = wording.listed([str(rank) for rank in ranks])
        text = f"{VARIABLE}={forced}, and ranks {who} are connected over {wording.listed(others)}"
        has = {str(rank_logs.unlogged(rank).get(VARIABLE, "")) for rank in told.ranks}
        return found.fail(text, REPLACED if has == {forced} else OVERRIDDEN, violation=True)
    doubt = _not_in_force(told, facts, forced)
    if doubt is not None:
        return found.inconclusive(*doubt)
    if not any(path.carrier for path in facts.paths):
        text = f"no rank printed a connection over {forced}"
        return found.inconclusive(text, rank_logs.SILENT)
    unclear = rank_logs.doubt(facts)
    if unclear is not None:
        return found.inconclusive(unclear[0], causes=unclear[1])
    text = f"{VARIABLE}={forced}: one communicator of {facts.nranks} ranks over {wording.listed(list(facts.net))}"
    return found.passed(text, where=shared.places(list(told.ranks)))


def _not_in_force(told: Told, facts: Facts, forced: str) -> tuple[str, Cause] | None:
    """Return why it is not known that every rank was held to the network; None if it is.

    NCCL does not log the variable, so the process must tell it.
    """
    silent = [rank for rank in told.ranks if rank.environment is None]
    if silent:
        return f"{wording.listed(shared.places(silent), 4)} did not tell {VARIABLE}", rank_logs.UNTOLD
    values = {value for rank in told.ranks for value in rank_logs.unlogged(rank).values()}
    strange = sorted(
        value for value in {*values, *facts.settings.get(VARIABLE, {})} if not _same(value, forced)
    )
    if strange:
        return f"{VARIABLE}={forced} was set, but in effect is {wording.listed(strange)}", OVERRIDDEN
    without = [rank for rank in told.ranks if VARIABLE not in rank_logs.unlogged(rank)]
    if without:
        text = (
            f"{VARIABLE}={forced} was set, but {wording.listed(shared.places(without), 4)} does not have it"
        )
        return text, OVERRIDDEN
    return None


def _same(name: str, forced: str) -> bool:
    """Report whether two names are of one network; NCCL compares them without regard to case."""
    return name.lower() == forced.lower()
