"""PLG-009: a Job without the mpi and ssh plugins shows the documented failure: no MPI_HOST, and no login."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.evidence.training import ssh
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import mpi_launch, pytorch_plan, ssh_causes, ssh_logins
from pytest_gpucluster.requirement import Cause, Finding, Verdict

CONTROL = "without the mpi and ssh plugins the master has no MPI_HOST, no member has keys, and workers let nobody in"
OWN_KEYS = Cause(
    "the image, or something that mounts into all pods, brings keys that let members in without the ssh plugin",
    "use an image without keys in the home of its user: what the rows of the plugins show is otherwise the image's",
)


@subjects.judge
def unreachable_without_plugins(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge PLG-009."""
    gang = subjects.first(evidence, given, "unplugged")
    if gang is None:
        return wording.finding(
            Verdict.INCONCLUSIVE, CONTROL, "no Job without the mpi and ssh plugins was tried"
        )
    found = wording.Findings(CONTROL, gang)
    missing, causes, keys = _not_shown(evidence, gang)
    if missing:
        return found.inconclusive(f"{missing}; the control does not show it", *causes, evidence=keys)
    refused = next(one for one in ssh.logins(evidence, gang.pods) if not one.ok)
    return found.passed(
        f"shown: no {mpi_launch.VARIABLE}, no keys, and {refused.target} answered {refused.pod.name} "
        f"{ssh_logins.last_line(refused.error)!r}",
        ssh_causes.NO_PLUGIN,
        where=(refused.pod.where,),
        evidence=keys,
    )


def _not_shown(evidence: Evidence, gang: Gang) -> tuple[str, tuple[Cause, ...], tuple[str, ...]]:
    """Return why the failure does not show ("" if it does), its causes, and the lines that count."""
    plugins = sorted({"mpi", "ssh"} & set(gang.job.plugins if gang.job else ()))
    if plugins:
        return f"{gang.title} has {wording.listed(plugins)}", (), ()
    seen = [one for one in pytorch_plan.environments(evidence, gang) if one.by_process]
    folders = ssh.key_folders(evidence, gang.pods)
    logins = ssh.logins(evidence, gang.pods)
    keys = tuple(dict.fromkeys((*(one.key for one in seen), *(f.key for f in folders.values()))))[:4]
    keys = (*keys, *(one.key for one in logins[:4]))
    if {one.pod.uid for one in seen} != {pod.uid for pod in gang.pods} or len(gang.pods) < gang.size:
        return "not every member told its variables", (), keys
    told = next((one for one in seen if mpi_launch.VARIABLE in one.env), None)
    if told is not None:
        return f"{told.pod.name} has {mpi_launch.VARIABLE}", (mpi_launch.OVERRIDDEN,), (told.key,)
    if set(folders) != {pod.uid for pod in gang.pods}:
        return "not every member told which keys it has", (), keys
    entered = next((one for one in logins if one.ok), None)
    if entered is not None:
        return f"{entered.to} let {entered.pod.name} in", (OWN_KEYS,), (entered.key,)
    keyed = next((one for one in folders.values() if ssh.PRIVATE in one.modes or one.digest), None)
    if keyed is not None:
        return f"{keyed.pod.name} has a key in {keyed.folder}", (OWN_KEYS,), (keyed.key,)
    blind = next((one for one in folders.values() if not one.looked_in), None)
    if blind is not None:
        return f"{blind.pod.name} told of {blind.folder}, where SSH does not look for keys", (), (blind.key,)
    odd = next((one for one in logins if one.contradictory), None)
    if odd is not None:
        return f"{odd.pod.name} told neither a login nor a failed one", (), (odd.key,)
    names = {pod.name for pod in gang.pods}
    strange = next((one for one in logins if one.target not in names - {one.pod.name}), None)
    if strange is not None:
        return f"{strange.pod.name} tried {strange.to}, which is no other member", (), (strange.key,)
    if not logins:
        return "no login was tried", (), keys
    other = next((one for one in logins if not ssh_causes.DENIED.search(one.error)), None)
    if other is not None:
        cause = ssh_causes.of_login(evidence, gang, other)
        said = wording.short(ssh_logins.last_line(other.error))
        return f"{other.to} was not reached at all ({said})", (cause,), (other.key,)
    launched = next((one for one in ssh.launches(evidence, gang.pods) if one.ok), None)
    if launched is not None or any(ssh.ranks(evidence, pod) for pod in gang.pods):
        return "ranks ran all the same", (OWN_KEYS,), keys
    return "", (), keys
