"""Why a kubelet ended a pod that ran: a shortage of its node, a limit of its own, a shutdown."""

import re

SHUTDOWN = re.compile(
    r"node (?:is )?shut|shutting(?: down)?\b|imminent node shutdown|node shutdown", re.IGNORECASE
)
RESOURCE = re.compile(r"low on resource: (?P<resource>[\w.-]+)")
USING = re.compile(
    r"[Cc]ontainer (?P<name>\S+) was using (?P<used>[\w.]+)(?:, request is (?P<asked>[\w.]+))?"
)
CONDITION = re.compile(r"had condition: \[(?P<names>[^\]]*)\]")
OWN: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r'[Uu]sage of EmptyDir volume "(?P<name>[^"]+)" exceeds the limit "?(?P<limit>[\w.]+)'),
     "it wrote more into its emptyDir {name} than the sizeLimit of {limit}",
     "raise sizeLimit of that volume, or write elsewhere; one of medium Memory counts as memory too"),
    (re.compile(r'[Cc]ontainer (?P<name>\S+) exceeded its local ephemeral storage limit "?(?P<limit>[\w.]+)'),
     "its container {name} wrote more than its own limit of {limit} of ephemeral-storage",
     "raise limits.ephemeral-storage, or write to a volume"),
    (re.compile(r"ephemeral local storage usage exceeds the total limit of containers (?P<limit>[\w.]+)"),
     "it wrote more than its own limit of {limit} of ephemeral-storage",
     "raise limits.ephemeral-storage of its containers, or write to a volume"),
)  # fmt: skip
"""(what is said of a limit that the pod has itself, what it means, what to do)."""
SHORT = {
    "ephemeral-storage": ("local disk (ephemeral-storage)",
                          ("find what fills the disk of {node} (images, logs, emptyDirs, hostPaths); give pods "
                          "requests.ephemeral-storage")),
    "memory": ("memory", "give pods requests.memory as large as what they use, and find what fills {node}"),
    "inodes": ("inodes: too many files", "find what makes so many files on {node} (df -i)"),
    "pids": ("process ids", "find what starts so many processes on {node}; limit it with the kubelet's podPidsLimit"),
}  # fmt: skip
"""Resource of which a node ran short -> how it is called, what to do."""
PRESSURES = {"DiskPressure": "ephemeral-storage", "MemoryPressure": "memory", "PIDPressure": "pids"}
DOWN = (
    "{node} was shut down, and its kubelet ended the pod",
    "restart the gang, and drain nodes before shutting them down",
)


def why(message: str, node: str) -> tuple[str, str] | None:
    """Return (why a pod was ended, what to do), by what its kubelet says; None where the words are not known."""
    for pattern, text, fix in OWN:
        found = pattern.search(message)
        if found:
            return text.format(**found.groupdict()), fix
    if SHUTDOWN.search(message):
        return DOWN[0].format(node=node), DOWN[1]
    low, had = RESOURCE.search(message), CONDITION.search(message)
    if not low and not had:
        return None
    names = [PRESSURES.get(n.strip(), n.strip()) for n in had["names"].split(",")] if had else []
    resource = low["resource"].rstrip(".") if low else names[0]
    called, fix = next(
        (told for key, told in SHORT.items() if resource.lower().endswith(key)),
        (resource, "find what uses it up on {node}"),
    )
    text = f"{node} ran short of {called}" + (f" (condition {had['names']})" if had else "")
    using = [
        f"its container {m['name']} used {m['used']}" + (f" with a request of {m['asked']}" if m["asked"] else "")
        for m in USING.finditer(message)
    ]  # fmt: skip
    return "; ".join([text, *using[:2]]), fix.format(node=node)
