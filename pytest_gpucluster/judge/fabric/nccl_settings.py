"""FAB-017: the settings in force are the declared ones on every rank, and nothing is disabled behind their back.

NCCL logs most settings that it reads from environment or a configuration file; a manifest does not show what an
image or /etc/nccl.conf adds. NCCL_NET it never logs: the ranks tell it.
"""

from collections.abc import Mapping

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import connections, rank_logs, shared
from pytest_gpucluster.judge.fabric.connections import Ground
from pytest_gpucluster.measure import nccl
from pytest_gpucluster.requirement import Cause, Finding

REQUIRED = "the declared settings are in effect on every rank, and no other setting disables a transport"

DISABLING: Mapping[str, tuple[str, ...]] = {
    "NCCL_IB_DISABLE": ("1",),
    "NCCL_P2P_DISABLE": ("1",),
    "NCCL_SHM_DISABLE": ("1",),
    "NCCL_NET_DISABLE": ("1",),
    "NCCL_NVLS_ENABLE": ("0",),
    "NCCL_CUMEM_ENABLE": ("0",),
    "NCCL_DMABUF_ENABLE": ("0",),
    "NCCL_NET_GDR_LEVEL": ("0", "LOC"),
    "NCCL_NET_GDR_READ": ("0",),
    "NCCL_NET": ("Socket",),
    "NCCL_NET_PLUGIN": ("none",),
}
"""Settings that take a transport away, with the values that do."""
IMAGE = Cause(
    "the image sets it (ENV), or a configuration file does (/etc/nccl.conf, ~/.nccl.conf, NCCL_CONF_FILE)",
    "read the image's environment (`env` in a pod of it) and these files; set the declared values in the pod itself",
)
UNEVEN = Cause(
    "a launcher does not pass the variable to all ranks (mpirun needs -x), or pods have different images",
    "set it in the pod template, not in a shell of the first rank",
)
UNSET = Cause(
    "nothing sets it: the pod, the image and NCCL's configuration files leave it at its default",
    "set it in the pods of training, and for this suite in fabric.env",
)
UNREAD = Cause(
    "NCCL logs a setting only when it reads it: the part that reads this one was not started",
    "compare with another rank's log; NCCL_DEBUG_SUBSYS must have ENV",
)


@subjects.judge
def as_declared(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-017."""
    ground = connections.of(evidence, given, REQUIRED, between=False)
    if isinstance(ground, Finding):
        return ground
    own = shared.fabric(given)
    settings, env = own.get("settings") or {}, own.get("env") or {}
    declared = (
        {str(key): str(value) for key, value in settings.items()} if isinstance(settings, Mapping) else {}
    )
    ours = {str(key): str(value) for key, value in env.items()} if isinstance(env, Mapping) else {}
    in_force = _in_force(ground)
    other = _other(declared, in_force)
    if other:
        name, value, ranks = other
        text = f"{name}={declared[name]} is declared; ranks {_list(ranks)} have {value}"
        return ground.fail(text, ranks, IMAGE, UNEVEN)
    off = _disabled({**ours, **declared}, in_force)
    if off:
        name, value, ranks = off
        text = f"{name}={value} is in effect on ranks {_list(ranks)}, but not declared"
        return ground.fail(text, ranks, IMAGE)
    if not _told(ground):
        text = f"not every rank told its environment, and NCCL never logs {', '.join(rank_logs.UNLOGGED)}"
        return ground.found.inconclusive(text, rank_logs.UNTOLD)
    if not declared:
        text = "no settings are declared (fabric.settings); no setting that disables a transport is in effect"
        return ground.found.not_applicable(text)
    return ground.lacking() or _everywhere(ground, declared, in_force)


def _everywhere(
    ground: Ground, declared: Mapping[str, str], in_force: Mapping[int, Mapping[str, str]]
) -> Finding:
    """Say whether each rank's log shows each declared setting."""
    for name in declared:
        mute = [rank for rank in range(ground.world) if name not in in_force.get(rank, {})]
        if 0 < len(mute) < ground.world:
            text = f"{name} is in effect on {ground.world - len(mute)} of {ground.world} ranks, not on {_list(mute)}"
            return ground.fail(text, mute, UNEVEN, IMAGE)
        if mute and all(name not in (rank.environment or {}) for rank in ground.told.ranks):
            text = f"{name} is in effect on no rank: it is neither in the environment nor in the log"
            return ground.fail(text, mute, UNSET)
        if mute:
            return ground.found.inconclusive(f"no rank's log shows {name}", UNREAD)
    listed = wording.listed([f"{name}={value}" for name, value in declared.items()], 4)
    return ground.found.passed(f"in effect on all {ground.world} ranks: {listed}")


def _told(ground: Ground) -> bool:
    """Report whether every rank told its environment."""
    return all(rank.environment is not None for rank in ground.told.ranks)


def _in_force(ground: Ground) -> dict[int, dict[str, str]]:
    """Return what is in force on each rank: by its log and, for what NCCL never logs, by its own environment."""
    unlogged = {rank.rank: rank_logs.unlogged(rank) for rank in ground.told.ranks}
    return {log.rank: {**unlogged.get(log.rank, {}), **_settings(log.pod, log.lines)} for log in ground.logs}


def _settings(pod: str, lines: list[str]) -> dict[str, str]:
    """Return what one rank's log says is in force."""
    reader = nccl.Reader()
    reader.start(pod)
    reader.feed("".join(f"{line}\n" for line in lines).encode())
    reader.end()
    told = nccl.draw(reader.seen).settings
    return {name: list(values)[-1] for name, values in told.items() if values}


def _other(
    declared: Mapping[str, str], in_force: Mapping[int, Mapping[str, str]]
) -> tuple[str, str, list[int]] | None:
    for name, value in declared.items():
        strange = {rank: own[name] for rank, own in in_force.items() if own.get(name, value) != value}
        if strange:
            return name, wording.listed(sorted(set(strange.values()))), sorted(strange)
    return None


def _disabled(
    known: Mapping[str, str], in_force: Mapping[int, Mapping[str, str]]
) -> tuple[str, str, list[int]] | None:
    for name, values in DISABLING.items():
        off = {v.lower() for v in values}
        ranks = sorted(rank for rank, own in in_force.items() if own.get(name, "").lower() in off)
        if ranks and known.get(name, "").lower() not in off:
            return name, in_force[ranks[0]][name], ranks
    return None


def _list(ranks: list[int]) -> str:
    return wording.listed([str(rank) for rank in ranks])
