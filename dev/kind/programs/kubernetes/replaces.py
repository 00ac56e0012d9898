#!/usr/bin/env python3
"""Write go.mod anew for another version of Kubernetes: `replaces.py v1.38.0`, then `go mod tidy`.

Kubernetes' own module names its staging modules as folders, which another module cannot use; each is replaced by the
published one of the same minor and patch version.
"""

import json
import re
import subprocess
import sys
from pathlib import Path


def main(version: str) -> None:
    """Write the module file beside this script."""
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
    lines = [
        "module hyper",
        "",
        f"go {language[1]}",
        "",
        f"require k8s.io/kubernetes {version}",
        "",
        "replace (",
    ]
    lines += [f"\t{name} => {name} v0.{version.split('.', 1)[1]}" for name in sorted(staging)]
    Path(__file__).with_name("go.mod").write_text("\n".join([*lines, ")", ""]))


main(sys.argv[1])
