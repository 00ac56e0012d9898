#!/usr/bin/env python3
"""Set another version of Kubernetes in go.mod: `replaces.py v1.38.0`, then `go mod tidy`.

Kubernetes' own module names its staging modules as folders, which another module cannot use; each is replaced by the
published one of the same minor and patch version. Set etcd and CoreDNS to what `kubeadm config images list` names then.
"""

import json
import re
import subprocess
import sys
from pathlib import Path


def main(version: str) -> None:
    """Change the module file beside this script."""
    said = subprocess.run(
        ["go", "mod", "download", "-json", f"k8s.io/kubernetes@{version}"],
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
    ).stdout
    theirs = Path(json.loads(said)["GoMod"]).read_text()
    staging = set(re.findall(r"^\s*(k8s\.io/[a-z0-9-]+) v0\.0\.0$", theirs, re.MULTILINE))
    staging |= set(re.findall(r"(k8s\.io/[a-z0-9-]+) => \./staging", theirs))
    language = re.search(r"^go (\S+)", theirs, re.MULTILINE)
    if language is None:
        sys.exit(f"the module file of k8s.io/kubernetes {version} names no version of Go")
    published = f"v0.{version.split('.', 1)[1]}"
    changes = [f"-go={language[1]}", f"-require=k8s.io/kubernetes@{version}"]
    changes += [f"-replace={name}={name}@{published}" for name in sorted(staging)]
    # What is only required by others is left to `go mod tidy`, which takes their newest word.
    ours = json.loads(
        subprocess.run(
            ["go", "mod", "edit", "-json"], check=True, capture_output=True, text=True, cwd=HERE
        ).stdout
    )
    changes += [f"-droprequire={each['Path']}" for each in ours["Require"] if each.get("Indirect")]
    subprocess.run(["go", "mod", "edit", *changes], check=True, cwd=HERE)


HERE = Path(__file__).resolve().parent

main(sys.argv[1])
