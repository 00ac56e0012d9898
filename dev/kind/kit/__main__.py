"""`python3 -m dev.kind.kit up|down|env|build`: what dev/kind/up, down and env call."""

import argparse
import fcntl
import json
import os
import shlex
import shutil
import time
from pathlib import Path

from . import addons, cache, engine, images, node, payload, places, programs, root
from .shell import Failed, say

PARTS = (
    *(root.NODE, root.PAYLOAD, *programs.ALL),
    *(images.CONTROL_PLANE, node.NODE, payload.PAYLOAD, addons.KUEUE, engine.DOCKER),
)


def up(_: argparse.Namespace) -> None:
    """Make what is missing, have an engine with the node image, and say what to set."""
    began = time.monotonic()
    os.environ["PATH"] = engine.programs_path()
    if engine.address() is not None or not engine.another_answers():
        engine.start()
        os.environ["DOCKER_HOST"] = str(engine.address())
    engine.report()
    build(_)
    node.give_to_engine()
    if engine.address() is not None:
        node.forget_others()
    say(f"  node image     {node.IMAGE}")
    say(f"  ready after    {time.monotonic() - began:.1f} s; what next: make test-kind")


def build(_: argparse.Namespace) -> None:
    """Make what is missing, and drop what older versions of the kit made."""
    for part in PARTS:
        part.made()
    cache.forget_others(PARTS)


def env(options: argparse.Namespace) -> None:
    """Print what a shell has to set, for the kit's engine if it runs."""
    missing = [part.name for part in (node.NODE, payload.PAYLOAD, addons.KUEUE) if not part.folder.is_dir()]
    if missing and options.if_made:
        return
    if missing:
        raise Failed(f"dev/kind: {', '.join(missing)} not made yet: run dev/kind/up first")
    settings = {
        "GPUCLUSTER_KIND_IMAGE": node.IMAGE,
        "GPUCLUSTER_KIND_PAYLOAD": str(payload.PAYLOAD.made() / "payload.tar"),
        "GPUCLUSTER_KIND_ADDONS": str(addons.KUEUE.made()),
    }
    if engine.address() is not None:
        settings["DOCKER_HOST"] = str(engine.address())
    if options.site_packages is not None:
        folder = Path(options.site_packages).resolve()
        if not folder.is_dir():
            raise Failed(f"dev/kind/env: --site-packages {folder} is no folder")
        settings["GPUCLUSTER_KIND__MOUNTS"] = json.dumps([{"host": str(folder), "node": node.SITE_PACKAGES}])
    print(f'export PATH={shlex.quote(f"{programs.KIND.made()}:{programs.KUBERNETES.made()}")}:"$PATH"')
    if shutil.which("docker") is None:
        print(f'export PATH="$PATH":{shlex.quote(str(engine.DOCKER.made() / "usr/bin"))}')
    for name, value in settings.items():
        print(f"export {name}={shlex.quote(value)}")


def down(_: argparse.Namespace) -> None:
    """Stop the kit's engine and take back what it made; one that was there before is left alone."""
    if engine.address() is None:
        say("  no engine of dev/kind runs")
    engine.stop()
    say("  stopped the engine")


def main() -> None:
    """Do what is asked, one at a time for a cache."""
    parser = argparse.ArgumentParser(prog="dev/kind", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    for verb in (up, build, env, down):
        each = verbs.add_parser(verb.__name__, help=(verb.__doc__ or "").splitlines()[0])
        each.set_defaults(verb=verb)
        if verb is env:
            each.add_argument(
                "--site-packages", metavar="DIR", help="Python packages that pods see, torch among them"
            )
            each.add_argument(
                "--if-made", action="store_true", help="print nothing where dev/kind/up never ran"
            )
    options = parser.parse_args()
    places.CACHE.mkdir(parents=True, exist_ok=True)
    with (places.CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        options.verb(options)


if __name__ == "__main__":
    main()
