"""HLT-004: a container sees the GPUs that it was granted and no others."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from pytest_gpucluster.evidence.hardware import device_access
from pytest_gpucluster.evidence.hardware.device_access import View
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

ALL_VISIBLE = Cause(
    "the image sets NVIDIA_VISIBLE_DEVICES=all (images of CUDA do), and the container runtime accepts it from "
    "unprivileged containers",
    "set accept-nvidia-visible-devices-envvar-when-unprivileged = false in the NVIDIA container toolkit's config.toml, "
    "with the device plugin's device list strategy volume-mounts or cdi-annotations; or run such pods under a runtime "
    "class without GPUs",
)
MOUNTED = Cause(
    "something other than the device plugin puts device files into the container: a hostPath volume of /dev, a "
    "privileged security context, a mutating webhook",
    "compare the pod in the cluster with its manifest; forbid both with Pod Security (baseline)",
)
LOST = Cause(
    "the container runtime did not add the devices that the plugin allocated: the nvidia runtime is not the default "
    "and the pod names no runtime class, or CDI specifications are missing or old",
    "name the runtime class (nvidia), or generate the CDI specifications again (nvidia-ctk cdi generate) "
    "and restart the plugin",
)
NOT_GIVEN = Cause(
    "the kubelet started the container without a device: its plugin had not registered when the kubelet started, "
    "and the checkpoint was gone, or the resource was written into the node's status by hand",
    "delete the pod; keep /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint on live nodes, and check "
    "that the plugin's pod runs on the node",
)
BROKEN = Cause(
    "the driver in the container does not answer: its version differs from the kernel module's, or a GPU is lost",
    "look at `nvidia-smi` and `dmesg` on the node; restart the driver's pod or the node",
)
REQUIRED = (
    "a container sees the GPUs that it was granted and no others; one that asked for no GPU sees no GPU"
)


def node_tried(_evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether there was a node with GPUs to try: what it offers, not what is free of it."""
    name = "a node offers GPUs"
    chosen = given.get("tried")
    if not isinstance(chosen, list | tuple):
        return wording.presupposed(name, held=True, observed="a recording")
    if not chosen:
        causes = (wording.TOO_FEW_OFFERED,)
        return wording.presupposed(name, held=False, observed="no node offers a GPU", causes=causes)
    return wording.presupposed(name, held=True, observed=wording.listed(list(map(str, chosen)), 4))


@subjects.judge
def sees_its_own(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge HLT-004."""
    every = device_access.views(evidence, given)
    wrong = [(view, text, causes) for view in every if view.said for text, causes in _wrong(view)]
    wrong += [(view, text, _leaks(view)[::-1]) for view, text in _twice([v for v in every if v.said])]
    if wrong:
        views = list(dict.fromkeys(view.where for view, _, _ in wrong))
        return wording.finding(
            Verdict.FAIL,
            REQUIRED,
            wording.listed([text for _, text, _ in wrong], 4),
            violation=True,
            where=tuple(views[: wording.MANY]),
            causes=tuple(dict.fromkeys(cause for _, _, causes in wrong for cause in causes)),
            evidence=tuple(dict.fromkeys(view.key for view, _, _ in wrong)),
            numbers=_numbers(every),
            facts=_facts(every),
        )
    open_ = _undecided(evidence, every)
    if open_ is not None:
        return open_
    return wording.finding(
        Verdict.PASS,
        REQUIRED,
        wording.listed([_sees(view) for view in every], 6) + _alone(every),
        where=tuple(view.where for view in every)[: wording.MANY],
        evidence=tuple(view.key for view in every),
        numbers=_numbers(every),
        facts=_facts(every),
    )


def _wrong(view: View) -> Iterator[tuple[str, tuple[Cause, ...]]]:
    """Yield what a container sees too much, or lacks of what it was granted."""
    title = f"{view.pod.name}/{view.container}"
    if view.asked == 0:
        if view.reach:
            yield (
                f"{title} asked for no GPU and can reach {view.reach}: {_named(view)}",
                _leaks(view),
            )
        elif view.told:
            told = wording.listed(list(view.told), 3)
            yield f"{title} asked for no GPU, but its environment names {told}", (ALL_VISIBLE,)
        return
    reach = view.reach
    if reach is not None and reach > view.granted:
        yield (
            f"{title} was granted {view.granted} and can reach {reach}: {_named(view)}",
            _leaks(view),
        )
    elif reach is not None and reach < view.granted and not view.sliced:
        yield (
            f"{title} was granted {view.granted} and can reach {reach}: {_named(view) or 'none'}{_shut(view)}",
            (LOST, BROKEN) if view.told or view.closed else (NOT_GIVEN, LOST),
        )
    elif view.error is not None:
        yield f"{title} was granted {view.granted}, and its driver returned {view.error}", (BROKEN,)
    strange = _strange(view)
    if strange and not (reach is not None and reach > view.granted):
        yield (
            f"{title} was told {wording.listed(list(view.told), 3)} and its driver lists {strange[0]}",
            (LOST, MOUNTED),
        )


def _leaks(view: View) -> tuple[Cause, ...]:
    """Return why a container can reach too much: its own specification may say so."""
    return (MOUNTED,) if device_access.opened_by_pod(view) else (ALL_VISIBLE, MOUNTED)


def _shut(view: View) -> str:
    return f" ({wording.listed(list(view.closed), 2)} does not open)" if view.closed else ""


def _strange(view: View) -> list[str]:
    """Return what a driver lists and the plugin did not tell; empty where they cannot be compared."""
    told = {device_access.bare(name.partition(device_access.REPLICA)[0]) for name in view.told}
    listed = [name for name in view.listed or () if "-" in name]
    if not told or any("-" not in name for name in told):
        return []
    return [name for name in listed if device_access.bare(name) not in told]


def _twice(views: Sequence[View]) -> Iterator[tuple[View, str]]:
    """Yield GPUs that two containers of a node can reach, where GPUs are not shared on purpose."""
    for one, other in combinations([v for v in views if v.asked and not v.shared and not v.sliced], 2):
        if one.pod.node != other.pod.node or not _together(one, other):
            continue
        for ours, theirs in (
            (one.listed or (), other.listed or ()),
            (one.files, other.files),
            (one.told, other.told),
        ):
            both = sorted(set(ours) & set(theirs))
            if both:
                pair = f"{one.pod.name}/{one.container} and {other.pod.name}/{other.container}"
                yield other, f"{pair} can both reach {wording.listed(both, 3)}"
                break


def _together(one: View, other: View) -> bool:
    """Report whether two containers held their GPUs at the same time: those of one pod do."""
    if one.pod.uid == other.pod.uid:
        return True
    first, second = sorted((one.pod, other.pod), key=lambda pod: pod.bound or 0.0)
    ends = [t for t in (first.finished, first.deleted) if t is not None]
    return second.bound is not None and (not ends or min(ends) > second.bound)


def _undecided(evidence: Evidence, every: Sequence[View]) -> Finding | None:
    """Return why nothing can be said, where something is missing."""
    silent = [view for view in every if not view.said]
    blind = [view for view in every if view.said and view.asked and view.reach is None]
    text = ""
    causes: tuple[Cause, ...] = ()
    where = every
    if not every:
        text = "no container reported what it can reach"
    elif silent:
        where, text = (
            silent,
            f"{wording.listed([v.where for v in silent], 4)} did not report what it can reach",
        )
        vain = subjects.timed_out(evidence)
        text += f"; waited in vain: {vain[0]}" if vain is not None else ""
    elif blind:
        where = blind
        text = (
            f"{blind[0].pod.name}/{blind[0].container} was granted {blind[0].granted} and has no GPU device file; "
            f"no driver answers ({blind[0].why}): what it can reach was not seen"
        )
        causes = (LOST, BROKEN)
    elif not any(view.asked for view in every) or all(view.asked for view in every):
        lacks = "that asked for GPUs" if not any(view.asked for view in every) else "that asked for none"
        text = f"no container {lacks} was tried"
    if not text:
        return None
    return wording.finding(
        Verdict.INCONCLUSIVE,
        REQUIRED,
        text,
        where=tuple(view.where for view in where)[: wording.MANY],
        causes=causes,
        evidence=tuple(view.key for view in where if view.key),
    )


def _alone(every: Sequence[View]) -> str:
    """Return what was not tried: no node had two containers with GPUs at the same time."""
    asked = [view.pod.node for view in every if view.asked]
    return "" if len(asked) > len(set(asked)) else "; no two containers with GPUs were tried on one node"


def _sees(view: View) -> str:
    named = _named(view)
    how = "its driver lists" if view.listed else "it opens" if view.files else "it sees"
    return f"{view.container} on {view.pod.node} was granted {view.granted}: {how} {named or 'none'}"


def _named(view: View) -> str:
    """Return what a container can reach: by the driver's names where it lists as many as there are files."""
    names = view.listed if view.listed and view.count >= len(view.files) else view.files or view.listed or ()
    return wording.listed(list(names), 4)


def _numbers(every: Sequence[View]) -> tuple[Number, ...]:
    known = [view for view in every if view.said and view.reach is not None]
    if not known:
        return ()
    beyond = max((view.reach or 0) - view.granted for view in known)
    return (
        Number(
            "GPUs within reach beyond those granted",
            max(beyond, 0),
            "GPUs",
            0,
            "required",
        ),
    )


def _facts(every: Sequence[View]) -> dict[str, object]:
    return {
        "sees": {
            f"{view.pod.name}/{view.container}": {
                "granted": view.granted,
                "told": list(view.told),
                "files": list(view.files),
                "driver": None if view.listed is None else list(view.listed),
            }
            for view in every
            if view.said
        }
    }
