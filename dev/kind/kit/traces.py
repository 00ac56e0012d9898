"""What an engine leaves in the kernel: packet rules, links, settings. What it made is taken back, and nothing else."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from .shell import need

PROC, LINKS = Path("/proc/sys"), Path("/sys/class/net")
BEFORE = "before.json"
"""What there was before the engine, in its folder; an engine that was killed leaves it to the next."""
TABLES = ("iptables", "ip6tables")
SET_BY_ENGINE = (
    "net/ipv4/conf/all/route_localnet", "net/ipv6/conf/all/forwarding", "net/ipv6/conf/default/forwarding",
    "net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables",
)  # fmt: skip
"""Settings that the engine writes by itself, if the kernel has them."""

_CHAIN = re.compile(r"DOCKER(?:-[A-Z0-9-]+)?")
_BRIDGE = re.compile(r"docker0|br-[0-9a-f]{12}|br-\+")


def keep(folder: Path, settings: Sequence[str]) -> None:
    """Write down what there is before the engine starts, unless an engine that was killed has left that undone."""
    if (folder / BEFORE).exists():
        return
    told = {
        "settings": {name: value for name in settings if (value := _read(PROC / name)) is not None},
        "links": _links(),
        "rules": {program: saved for program in TABLES if (saved := _saved(program)) is not None},
    }
    partial = folder / f"{BEFORE}.partial"
    partial.write_text(json.dumps(told))
    partial.replace(folder / BEFORE)


def take_back(folder: Path) -> None:
    """Take away what the engine made since; nothing where nothing was written down."""
    try:
        told = json.loads((folder / BEFORE).read_text())
    except FileNotFoundError:
        return
    for program, before in told["rules"].items():
        for command in undoing(before, _saved(program) or ""):
            subprocess.run([need(program), "-w", *command], capture_output=True, check=False)
    for link in _links():
        if link not in told["links"] and _BRIDGE.fullmatch(link):
            subprocess.run([need("ip"), "link", "delete", link], capture_output=True, check=False)
    for name, value in told["settings"].items():
        if _read(PROC / name) not in (None, value):
            (PROC / name).write_text(value)
    (folder / BEFORE).unlink()


def undoing(before: str, now: str) -> list[list[str]]:
    """Return what must be told iptables so that nothing of the engine is left that was not there before.

    Rules of others stay, also those that came while the engine ran.

    Args:
        before: what `iptables-save` printed before the engine started.
        now: what it prints now.
    """
    there, left = _parsed(before), _parsed(now)
    commands: list[list[str]] = []
    for table, lines in left.items():
        known = set(there.get(table, ()))
        new = [line for line in lines if line not in known]
        at = ["-t", table]
        commands += [[*at, "-D", *shlex.split(rule)[1:]] for rule in new if _is_of_engine(rule)]
        chains = [name for name in _chains(new) if name not in set(_chains(known))]
        commands += [[*at, "-F", name] for name in chains]
        commands += [[*at, "-X", name] for name in chains]
        for name, policy in _policies(lines).items():
            was = _policies(known).get(name)
            # The engine sets FORWARD to DROP; of other chains it changes no policy.
            if name == "FORWARD" and was not in (None, policy):
                commands.append([*at, "-P", name, str(was)])
    return commands


def _parsed(text: str) -> dict[str, list[str]]:
    """Return table -> lines of what `iptables-save` printed, without counters, which change."""
    found: dict[str, list[str]] = {}
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif line.startswith((":", "-A")):
            found.setdefault(table, []).append(re.sub(r"\s*\[\d+:\d+\]", "", line).strip())
    return found


def _is_of_engine(rule: str) -> bool:
    """Report whether a rule in a chain of the kernel, or of the engine that was there before, is of the engine."""
    words = rule.split()
    if words[0] != "-A":
        return False
    return any(_CHAIN.fullmatch(word) or _BRIDGE.fullmatch(word) for word in words[1:])


def _chains(lines: Sequence[str] | set[str]) -> Iterator[str]:
    """Yield the chains of the engine that are declared in lines."""
    for line in lines:
        name = line[1:].partition(" ")[0]
        if line.startswith(":") and _CHAIN.fullmatch(name):
            yield name


def _policies(lines: Sequence[str] | set[str]) -> dict[str, str]:
    declared = (line[1:].split() for line in lines if line.startswith(":"))
    return {words[0]: words[1] for words in declared if len(words) > 1 and words[1] != "-"}


def _saved(program: str) -> str | None:
    """Return what is saved of a family's rules; None if the machine does not know the family."""
    if shutil.which(program) is None and not Path("/usr/sbin", program).exists():
        return None
    done = subprocess.run([need(f"{program}-save")], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _links() -> list[str]:
    return sorted(path.name for path in LINKS.iterdir()) if LINKS.is_dir() else []
