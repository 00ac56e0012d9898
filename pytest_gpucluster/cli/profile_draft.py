"""The text of a first profile: keys that are filled, keys that are open, and what was seen, as comments."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_gpucluster.cli import profile_sections
from pytest_gpucluster.cli.cluster_survey import Survey
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects import node_status
from pytest_gpucluster.plain import components as known
from pytest_gpucluster.plain import plurals, times, versions

OPEN = "OPEN"
"""Word that marks what the reader has to fill in."""

WIDTH = 108

_BARE = re.compile(r"^[A-Za-z/][A-Za-z0-9_./@-]*$")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "nan", "inf"})


def scalar(text: str) -> str:
    """Return a text as YAML, quoted unless it cannot be read as anything else."""
    if _BARE.match(text) and text.lower() not in _WORDS:
        return text
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if " " <= char <= "~":
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def draft(survey: Survey, kubeconfig: Path, context: str) -> str:
    """Return the profile's text."""
    parts = [
        _head(survey, context),
        _required(survey, kubeconfig, context),
        _declared(survey),
        _observed(survey),
    ]
    return "\n".join("\n".join(part) + "\n" for part in parts)


def _comment(text: str) -> Iterator[str]:
    """Yield a comment in lines of bounded width."""
    line = "#"
    for word in " ".join(text.split()).split(" "):
        if len(line) + 1 + len(word) > WIDTH and line != "#":
            yield line
            line = "#"
        line += f" {word}"
    yield line


def _comments(*texts: str) -> list[str]:
    return [line for text in texts for line in _comment(text)]


def _head(survey: Survey, context: str) -> list[str]:
    lines = _comments(
        f"First profile of the cluster behind context {context}, written by gpucluster discover on "
        f"{times.format_time(times.now())}.",
        f"Fill in what is marked {OPEN} before use. Comments that begin with observed show what was seen on that "
        "day: they are for information, and no row passes because of them.",
    )
    if survey.refused:
        lines += _comments(f"Not everything could be read: {'; '.join(survey.refused)}.")
    return lines


# -- the five required keys ------------------------------------------------------------------------------------------


def _required(survey: Survey, kubeconfig: Path, context: str) -> list[str]:
    return [
        "connection:",
        f"  kubeconfig: {scalar(str(kubeconfig))}",
        f"  context: {scalar(context)}",
        "",
        *_scheduler(survey),
        "",
        *_queue(survey),
        "",
        *_gpus(survey),
    ]


def _scheduler(survey: Survey) -> list[str]:
    parts = sorted({f"{s.where.partition('/')[2]} {s.text.rpartition(':')[2]}" for s in survey.versions
                    if s.component == "volcano"})  # fmt: skip
    if survey.queues is not None:
        told = f"observed: Volcano's API is served; {', '.join(parts) or 'its Deployments were not found'}"
        return [*_comments(told), "scheduler: volcano"]
    if any("queues" in line for line in survey.refused):
        text = f"{OPEN}: it could not be seen whether Volcano's API is served: volcano, or default-scheduler"
        return [*_comments(text), "scheduler:"]
    other = (
        " Kueue is installed, and admits Jobs that the default scheduler places."
        if survey.cluster_queues
        else ""
    )
    text = f"observed: no gang scheduler: the API serves no Volcano queues.{other}"
    return [*_comments(text), "scheduler: default-scheduler"]


def _queue(survey: Survey) -> list[str]:
    if survey.queues is None:
        others = [fields.text(q, "metadata", "name") for q in survey.cluster_queues or ()]
        seen = f" (ClusterQueues observed: {', '.join(others)})" if others else ""
        text = f"{OPEN}: the queue for training; `default` if the scheduler has none{seen}"
        return [*_comments(text), "queue:"]
    every = {fields.text(q, "metadata", "name"): fields.text(q, "status", "state") for q in survey.queues}
    told = ", ".join(f"{name} ({state or 'no state'})" for name, state in sorted(every.items()))
    own = [name for name in every if name not in ("root", "default")]
    if len(own) == 1 or (not own and "default" in every):
        chosen = own[0] if own else "default"
        return [*_comments(f"observed: queues {told}"), f"queue: {scalar(chosen)}"]
    text = f"{OPEN}: the queue for training; observed: {told or 'none'}"
    return [*_comments(text), "queue:"]


def _gpus(survey: Survey) -> list[str]:
    found = survey.gpu_resources
    if not found:
        others = sorted({name for m in survey.machines for name, n in m.capacity.items() if n > 0})
        seen = f"; extended resources observed: {', '.join(others)}" if others else ""
        labelled = [m.name for m in survey.machines if m.gpu_label]
        by_label = (
            f"; labels say that {len(labelled)} nodes have GPUs, such as {labelled[0]}" if labelled else ""
        )
        why = (
            "the nodes may not be read"
            if any(line.startswith("list nodes") for line in survey.refused)
            else f"none of {len(survey.machines)} nodes offers a known GPU resource{seen}{by_label}"
        )
        text = f"{OPEN}: name of the GPU resource, and GPUs of every GPU node: {why}"
        return [*_comments(text), "gpu_resource:", "gpus_per_node:"]
    ranked = sorted(found, key=lambda name: (-sum(map(len, found[name].values())), name))
    chosen, counts = ranked[0], found[ranked[0]]
    lines = _comments(f"observed: {'; '.join(f'{name} on {_count(found[name])}' for name in ranked)}")
    lines.append(f"gpu_resource: {scalar(chosen)}")
    if len(counts) == 1:
        return [*lines, f"gpus_per_node: {next(iter(counts))}"]
    shown = "; ".join(f"{count} on {_some(found[chosen][count])}" for count in sorted(counts, reverse=True))
    text = f"{OPEN}: GPUs that every GPU node must have; the nodes differ: {shown}"
    return [*lines, *_comments(text), "gpus_per_node:"]


def _count(counts: Mapping[int, Sequence[str]]) -> str:
    number = sum(len(nodes) for nodes in counts.values())
    return plurals.count(number, "node")


def _some(nodes: Iterable[str], limit: int = 4) -> str:
    every = list(nodes)
    shown = ", ".join(every[:limit])
    return shown if len(every) <= limit else f"{len(every)} nodes ({shown} ...)"


# -- what has to be declared -----------------------------------------------------------------------------------------


def _declared(survey: Survey) -> list[str]:
    lines = _comments(
        "The owner of the cluster must declare what follows: a value that was only observed gives no pass. "
        "Remove the comment mark and declare what must hold; a key that stays a comment is not judged.",
    )
    return [
        *lines,
        "",
        *_images(),
        "",
        *_bounds(),
        "",
        *_policies(survey),
        "",
        *_matrix(survey),
        "",
        *_pools(survey),
        "",
        *profile_sections.sections(survey, _comments, scalar),
    ]


def _bounds() -> list[str]:
    return [
        *_comments(
            "Bounds, in seconds: the longest time between the first and last bind of a gang (GANG-007)."
        ),
        "# bind_spread: 5",
        *_comments(
            "The shortest time to watch a 'never': 5, or 3 scheduler periods if that is longer.",
        ),
        "# window: 5",
        "# scheduler_period: 1",
    ]


def _policies(survey: Survey) -> list[str]:
    taints = Counter(
        f"{taint.get('key')}={taint.get('value') or ''}:{taint.get('effect')}"
        for m in survey.gpu_machines
        for taint in fields.items(m.line.object, "spec", "taints")
    )
    seen = ", ".join(f"{taint} ({count})" for taint, count in taints.most_common(4)) or "none"
    return [
        *_comments(
            "Policies: whether the suite may put its own resources on nodes (slots) and make namespaces; and "
            "additions to every pod, such as tolerations, pull secrets and annotations.",
            f"observed: taints of GPU nodes: {seen}",
        ),
        "# slots: true",
        "# namespace: conformance",
        "# overlay:",
        "#   spec:",
        "#     tolerations:",
        "#       - {key: example.com/dedicated, operator: Exists}",
    ]


def _matrix(survey: Survey) -> list[str]:
    lines = _comments(
        'Versions that were tested together (INV-006): ranges such as "1.14" or ">=1.33 <1.38", quoted.'
    )
    shown = {}
    for name in known.NAMES:
        found = sorted(
            {versions.printed(s.text) for s in survey.versions if s.component == name and s.version}
        )
        texts = sorted({s.text for s in survey.versions if s.component == name and not s.version})
        if found or texts:
            shown[name] = ", ".join([*found, *texts])
    lines += (
        _comments(f"observed: {'; '.join(f'{name} {text}' for name, text in shown.items())}") if shown else []
    )
    return [*lines, "# versions:", '#   kubernetes: [">=1.33 <1.38"]', '#   volcano: ["1.14"]']


def _pools(survey: Survey) -> list[str]:
    label = next((key for key in node_status.POOL_LABELS if survey.common(key)), "")
    seen = (
        f"observed: {label} is {survey.common(label)}"
        if label
        else "observed: no label of a cloud separates pools"
    )
    text = "Label that separates pools of nodes: nodes of one pool must be alike (INV-008)."
    return [*_comments(text, seen), f"# pool_label: {scalar(label) if label else 'example.com/pool'}"]


def _images() -> list[str]:
    digest = "registry.example/IMAGE@sha256:DIGEST"
    text = (
        f"{OPEN}: images of the suite's own pods, best pinned by digest: python (standard library) and torch. Without "
        "images.python no row is decided that makes pods, and without images.torch none that needs PyTorch."
    )
    return [*_comments(text), "# images:", f"#   python: {digest}", f"#   torch: {digest}"]


# -- what was seen ---------------------------------------------------------------------------------------------------


def _observed(survey: Survey) -> list[str]:
    gpu = survey.gpu_machines
    texts = [f"observed: {len(survey.machines)} nodes, {len(gpu)} with GPUs"]
    out = [f"{m.name} ({m.state})" for m in survey.machines if m.state]
    if out:
        texts.append(f"observed: out of service: {_some(out)}")
    for title, key in (
        ("GPU product", "nvidia.com/gpu.product"),
        ("GPU product", "amd.com/gpu.product-name"),
        ("GPU sharing", "nvidia.com/gpu.sharing-strategy"),
        ("MIG", "nvidia.com/mig.strategy"),
        ("zone", "topology.kubernetes.io/zone"),
        ("machine type", "node.kubernetes.io/instance-type"),
    ):
        if survey.common(key):
            texts.append(f"observed: {title} ({key}): {survey.common(key)}")
    for title, field in (
        ("kernel", "kernelVersion"),
        ("runtime", "containerRuntimeVersion"),
        ("system", "osImage"),
    ):
        counts = Counter(str(m.info[field]) for m in gpu if m.info.get(field))
        if counts:
            shown = ", ".join(f"{value} ({count})" for value, count in counts.most_common(4))
            texts.append(f"observed: {title} of GPU nodes: {shown}")
    for name, counter in profile_sections.adapters(survey).items():
        shown = ", ".join(f"{count} on {nodes} nodes" for count, nodes in counter.most_common(3))
        texts.append(f"observed: {name}: {shown}")
    return _comments(*texts)
