"""INV-007: every image of a pod is pinned by digest: a tag may be another image tomorrow, and another on each node."""

import dataclasses
import re
from collections.abc import Iterator

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed

REQUIRED = "every container of a pod, also those that a webhook adds, names its image by digest"

_DIGEST = re.compile(r"@(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$")
_OF_REGISTRY = re.compile(r"(?P<name>[^@]+)(?P<digest>@sha(?:256|512):[0-9a-f]+)$")
_IMPORTED = re.compile(r"(?:^|/)import-\d{4}-\d{2}-\d{2}@")
"""What containerd calls an image that was loaded into the node and has no name of a registry."""
_PARTS = ("initContainers", "containers", "ephemeralContainers")
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")

BY_TAG = Cause(
    "the profile names the image by tag, or by no tag, so nodes that pull at different times may run different images",
    "name it with its digest: `images: {ROLE: REPOSITORY@sha256:...}` in the profile, and in the manifests of training",
)
REWRITTEN = Cause(
    "the pod was submitted with another image: a webhook replaced it at admission, perhaps to point it to a mirror",
    "let the webhook keep the digest (REPOSITORY@sha256:... at the mirror is the same image), or leave these pods out",
)
ADDED = Cause(
    "something that admits pods (an injector of sidecars, a policy, a plugin) put in a container whose image has a tag",
    "pin the image where the injector is configured (its template, Helm values), or keep it away from training pods",
)
LOCAL = Cause(
    "the image was loaded into the nodes and comes from no registry, so it has no digest by which others could pull it",
    "push the image to a registry that the nodes can reach, and name it with the digest that the push prints",
)


@dataclasses.dataclass(frozen=True)
class Used:
    """The image of one container.

    Attributes:
        pod: the pod.
        container: name of the container.
        image: as the pod names it.
        ran: what the kubelet says that it ran, "" if it does not.
        added: whether the container is none of the pod's author.
        never_pulled: whether the node may not pull it.
    """

    pod: PodStory
    container: str
    image: str
    ran: str
    added: bool
    never_pulled: bool

    @property
    def pinned(self) -> bool:
        """Report whether the pod names it by digest."""
        return bool(_DIGEST.search(self.image))

    @property
    def local(self) -> bool:
        """Report whether it comes from no registry."""
        ran = self.ran.rpartition("://")[2]
        nameless = ran.startswith("sha256:") or bool(_IMPORTED.search(ran))
        return not self.pinned and (self.never_pulled or nameless)

    @property
    def shown(self) -> str:
        """Return it as findings show it, with the digest that ran if there is one."""
        match = _OF_REGISTRY.match(self.ran.rpartition("://")[2]) if not self.pinned else None
        ran = f" (it ran {match['name'].rpartition('/')[2]}{match['digest']})" if match else ""
        return f"{self.container} of {self.pod.name}: {self.image or 'no image'}{ran}"


@subjects.judge
def pinned_by_digest(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge INV-007."""
    every = list(_used(evidence, given))
    loose = [one for one in every if not one.pinned and not one.local]
    of = wording.Findings(
        REQUIRED,
        evidence=tuple(dict.fromkeys(one.pod.keys["created"] for one in (loose or every)))[: wording.MANY],
        numbers=(
            Number("images without a digest", len(loose), "containers", 0, f"containers: {len(every)}"),
        ),
        facts={"images": {one.image: one.ran for one in every[:100]}},
    )
    if not fields.sub(given, "images"):
        return of.inconclusive("which images training uses is not known")
    if loose:
        return of.fail(
            f"{len(loose)} of {wording.count(len(every), 'container')}: "
            f"{wording.listed([one.shown for one in loose], 4)}",
            violation=True,
            where=wording.shown([f"Pod/{one.pod.name}: {one.container}" for one in loose]),
            causes=tuple(dict.fromkeys(_cause(one, given) for one in loose)),
            repeat=(f"kubectl get pod {loose[0].pod.name} -o yaml",),
        )
    if not every:
        return of.inconclusive("no container of ours was seen")
    lacking = _unseen(every, given)
    if lacking:
        return of.inconclusive(f"no pod with the image {wording.listed(lacking)} was seen")
    images = list(dict.fromkeys(one.image for one in every))
    added = sum(one.added for one in every)
    text = f"{wording.count(len(every), 'container')} name {wording.count(len(images), 'image')} by digest"
    return of.passed(f"{text}; {added} of them put in at admission" if added else text)


def _cause(one: Used, given: subjects.Given) -> Cause:
    if one.added:
        return ADDED
    declared = fields.sub(given, "images").values()
    return REWRITTEN if declared and one.image not in declared else BY_TAG


def from_a_registry(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether images come from a registry: what was loaded into nodes has no digest to pin."""
    name = "images come from a registry"
    every = list(_used(evidence, given))
    local = [one for one in every if one.local]
    if local:
        text = f"loaded into the node: {wording.listed([one.shown for one in local], 4)}"
        return wording.presupposed(
            name, held=False, observed=text, causes=(LOCAL,), evidence=(local[0].pod.keys["created"],)
        )
    return wording.presupposed(name, held=True if every else None, observed=f"{len(every)} containers")


def _used(evidence: Evidence, given: subjects.Given) -> Iterator[Used]:
    """Yield the image of each container of the pods under judgement, as the cluster admitted them."""
    wanted = {uid for _, _, uid in subjects.roles(evidence, given).get("subject", ())}
    for pod in pods(evidence):
        if wanted and pod.uid not in wanted:
            continue
        foreign = containers.foreign(pod.last)
        ran = {
            fields.text(status, "name"): fields.text(status, "imageID")
            for part in _STATUSES
            for status in fields.items(pod.last, "status", part)
        }
        for part in _PARTS:
            for one in fields.items(pod.last, "spec", part):
                container = fields.text(one, "name")
                image, policy = fields.text(one, "image"), fields.text(one, "imagePullPolicy")
                added = container in foreign or part == "ephemeralContainers"
                yield Used(pod, container, image, ran.get(container, ""), added, policy == "Never")


def _unseen(every: list[Used], given: subjects.Given) -> list[str]:
    declared = fields.sub(given, "images")
    seen = {one.image for one in every}
    # A cluster may rewrite images to a mirror of its own: then one of ours stands in each pod all the same.
    own = {one.pod.uid for one in every if not one.added}
    return (
        [str(image) for image in declared.values() if image not in seen] if len(own) < len(declared) else []
    )
