"""Write fixtures/manifests from the scenarios, for people with kubectl: `python -m docs.manifests`."""

import argparse
import dataclasses
import pathlib

import yaml

from pytest_gpucluster.workload import config_map, dialect_for
from suites.scenarios import healthy, world

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "manifests"
GPU = "nvidia.com/gpu"


def manifests() -> dict[str, str]:
    """Return file name -> YAML text of every manifest."""
    volcano = dialect_for("volcano")
    gang = healthy.spec("gang-smoke", "python", "gang-smoke-payloads", {GPU: healthy.GPUS}, ends=True)
    torch = dataclasses.replace(
        world.robust("torch-smoke", "default"),
        payload="torch-smoke-payloads",
        image="torch",
        resources={GPU: world.PROCESSES},
    )
    return {
        "gang-smoke.yaml": _text(
            "One master and three workers that meet at a barrier; standard library only.",
            config_map("gang-smoke-payloads", "gang.py"),
            volcano.write(gang),
        ),
        "torch-smoke.yaml": _text(
            "torchrun over c10d in its robust form, in the namespace default.",
            config_map("torch-smoke-payloads", "world.py"),
            volcano.write(torch),
        ),
    }


def _text(about: str, *objects: dict[str, object]) -> str:
    body = yaml.safe_dump_all(objects, sort_keys=False, width=110)
    return f"# {about}\n# Written by python -m docs.manifests; the images are those of the embedded cluster.\n{body}"


def main() -> None:
    """Write the files."""
    for name, text in manifests().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    argparse.ArgumentParser("python -m docs.manifests", description=__doc__).parse_args()
    main()
