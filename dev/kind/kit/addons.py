"""What is installed into a cluster, as the provider takes it: a folder with manifests and an image archive."""

import shutil
from pathlib import Path

from . import archive, places, programs
from .cache import Part, remove
from .shell import run

KUEUE_IMAGE = f"kueue/manager:{places.KUEUE}"
NOBODY = "65532:65532"
"""The manifests say `runAsNonRoot`."""


def make_kueue(folder: Path) -> None:
    """Fill `kueue` with Kueue's own manifests, with our image in place of the published one."""
    addon, layer, work = folder / "kueue", folder / "layer", folder / "work"
    addon.mkdir()
    (layer / "tmp").mkdir(parents=True)
    (layer / "tmp").chmod(0o1777)
    shutil.copy(programs.KUEUE.made() / "kueue", layer / "manager")
    archive.write(addon / "image.tar", layer, [archive.Image([KUEUE_IMAGE], ["/manager"], NOBODY)])
    theirs = programs.module_folder("sigs.k8s.io/kueue", places.KUEUE) / "config"
    shutil.copytree(theirs, work / "config", copy_function=shutil.copyfile)
    ours = (places.HERE / "kueue/kustomization.yaml").read_text().replace("IMAGE", KUEUE_IMAGE)
    (work / "kustomization.yaml").write_text(ours)
    kubectl = programs.KUBERNETES.made() / "kubectl"
    (addon / "manifests.yaml").write_text(run(kubectl, "kustomize", work))
    run("chmod", "-R", "u+w", work)
    remove(work)
    remove(layer)


KUEUE = Part(
    "addons",
    make_kueue,
    sources=[places.HERE / "kueue", *(places.HERE / "kit" / each for each in ("addons.py", "archive.py"))],
    says=[places.KUEUE],
    uses=[programs.KUEUE, programs.KUBERNETES],
)
"""The folder of add-ons: one folder each."""
