"""PLG-012: the ssh plugin alone gives the members of a Job keys, with which each logs in to each."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.evidence.training import ssh
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import ssh_causes, volcano_jobs
from pytest_gpucluster.requirement import Finding, Verdict

REQUIRED = (
    f"the Secret <job>-ssh is mounted at {ssh_causes.KEY_PATH} with mode 0600 (elsewhere with 0644), and each member "
    "logs in to each other without a password"
)


@subjects.judge
def each_to_each(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge PLG-012."""
    jobs = volcano_jobs.of(evidence, given, "ssh")
    arranged = subjects.of(evidence, given).arranged
    if not arranged:
        jobs = tuple(gang for gang in jobs if gang.job and "ssh" in gang.job.plugins)
    if not jobs:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, "no Volcano Job with the ssh plugin in the evidence"
        )
    return wording.gravest([_of_job(evidence, gang) for gang in jobs])


def _of_job(evidence: Evidence, gang: Gang) -> Finding:
    folders = ssh.key_folders(evidence, gang.pods)
    logins = ssh.logins(evidence, gang.pods)
    keys = tuple(dict.fromkeys((*(f.key for f in folders.values()), *(one.key for one in logins))))[:8]
    found = wording.Findings(REQUIRED, gang, evidence=keys)
    if not gang.job or "ssh" not in gang.job.plugins:
        return found.fail(f"{gang.title} has no ssh plugin", ssh_causes.NO_PLUGIN)
    wrong = list(ssh_causes.departures(gang, folders))
    if wrong:
        causes = tuple(dict.fromkeys(cause for _, _, cause in wrong))
        pods = {pod.uid: pod for pod, _, _ in wrong}.values()
        text = wording.listed([text for _, text, _ in wrong], 4)
        return found.fail(text, *causes, violation=True, where=wording.places(pods))
    failed = failures(evidence, gang, logins, found)
    if failed is not None:
        return failed
    return unseen(gang, folders, logins, found) or found.passed(
        f"{len(logins)} logins between {gang.size} members, each with the key of Secret {gang.name}-ssh"
    )


def failures(
    evidence: Evidence, gang: Gang, logins: list[ssh.Login], found: wording.Findings
) -> Finding | None:
    """Return the finding that logins failed or led to somebody else, None if none did."""
    odd = next((one for one in logins if one.contradictory), None)
    if odd is not None:
        text = f"{odd.pod.name} to {odd.target}: neither a login nor a failed one (ok {odd.ok}, exit code {odd.code})"
        return found.inconclusive(text, evidence=(odd.key,))
    bad = [one for one in logins if not one.ok]
    if bad:
        causes = tuple(dict.fromkeys(ssh_causes.of_login(evidence, gang, one) for one in bad))
        told = [f"{one.pod.name} to {one.target}: {wording.short(last_line(one.error))}" for one in bad]
        return found.fail(
            f"{len(bad)} of {wording.count(len(logins), 'login')} failed: {wording.listed(told, 3)}",
            *causes,
            violation=True,
            where=wording.places({one.pod.uid: one.pod for one in bad}.values()),
            evidence=tuple(one.key for one in bad[:8]),
        )
    astray = next((one for one in logins if not one.at_the_target), None)
    if astray is not None:
        text = f"{astray.pod.name} logged in to {astray.to} and met {astray.said!r}"
        return found.fail(text, violation=True, where=(astray.pod.where,), evidence=(astray.key,))
    return None


def last_line(text: str) -> str:
    """Return the last line of what a program wrote, which says how it ended."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing")


def unseen(
    gang: Gang, folders: dict[str, ssh.KeyFolder], logins: list[ssh.Login], found: wording.Findings
) -> Finding | None:
    """Return the finding that something was not seen, so that nothing can be said of it; None if all was."""
    if len({pod.slot for pod in gang.pods}) < gang.size:
        return found.inconclusive(f"only {len(gang.pods)} of {gang.size} pods are in the evidence")
    mute = [pod.name for pod in gang.pods if pod.uid not in folders]
    if mute:
        return found.inconclusive(f"{wording.listed(mute)} did not tell which keys they have")
    strange = next((one for one in folders.values() if unread(gang, one)), None)
    if strange is not None:
        return found.inconclusive(
            f"{strange.pod.name}: {unread(gang, strange)}; what let the logins in is not known"
        )
    entered = {(one.pod.name, one.target) for one in logins}
    pairs = {(one.name, other.name) for one in gang.pods for other in gang.pods if one.name != other.name}
    if missing := sorted(pairs - entered):
        told = [f"{one} to {other}" for one, other in missing]
        return found.inconclusive(f"no login was seen of {wording.listed(told, 4)}")
    if len({folder.digest for folder in folders.values()}) > 1 or not all(
        folder.digest and folder.authorized for folder in folders.values()
    ):
        return found.inconclusive(
            "the logins came about, but not by the keys that the members told of: other keys let them in"
        )
    return None


def unread(gang: Gang, folder: ssh.KeyFolder) -> str:
    """Return why a folder of keys says nothing of the keys that SSH took, "" if it does."""
    path = ssh_causes.path_of(gang)
    if folder.folder != path:
        return f"it told of the keys in {folder.folder or 'no folder'}, those of the plugin are in {path}"
    if not folder.looked_in:
        return f"SSH looks for keys in {folder.home or 'no home'}/.ssh, not in {folder.folder}"
    modes = [name for name in ssh.FILES if not ssh_causes.OCTAL.fullmatch(folder.modes.get(name, ""))]
    return f"the mode of {wording.listed(modes)} is not readable" if modes else ""
