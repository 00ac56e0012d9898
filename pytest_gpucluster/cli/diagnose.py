"""`gpucluster diagnose`: what holds a job up, and what to do about it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.cli import common

if TYPE_CHECKING:
    from pytest_gpucluster.cli.job_snapshot import Collected, Collector
    from pytest_gpucluster.diagnose import Diagnosis, Judge
    from pytest_gpucluster.evidence import Evidence
    from pytest_gpucluster.kube.connection import Connection

STATUS = {"healthy": 0, "trouble": 1, "refused": 1, "starting": 3, "unclear": 3, "gone": 3}
"""State -> exit status; 2 is a mistake of the user."""

FORBIDDEN = (401, 403)
"""HTTP status of what may not be read."""

FAMILIES = ("GANG", "REF", "PLG", "LIFE", "RDZV", "ELA")
"""Requirements whose judges can say something about one job."""

DESCRIPTION = """Find what holds a job up: the likeliest cause first, with its fix. Needs no profile and
changes nothing; objects that may not be read are named, and the rest is still judged.

  gpucluster diagnose vcjob/smoke -n ml             look once at a Volcano Job
  gpucluster diagnose trainjob/llm -n ml            or at a Job, PodGroup, pod, JobSet, TrainJob, RayJob, MPIJob ...
  gpucluster diagnose vcjob/smoke -n ml --follow    look at every change, until the job ends
  gpucluster diagnose --from dump.json              look at files: what --save wrote, what
                                                    `kubectl get ... -o json` printed, evidence of a run
"""

EXITS = {
    0: "healthy",
    1: "a cause was found",
    **common.MISTAKE,
    3: "no cause was found (too young, deleted, or nothing to see), or no answer from the cluster",
}


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("diagnose", DESCRIPTION, EXITS)
    parser.add_argument(
        "job",
        metavar="KIND/NAME",
        nargs="?",
        help="the job, such as vcjob/NAME, job/NAME, podgroup/NAME, pod/NAME or trainjob/NAME; with --from it may be "
        "left out",
    )
    parser.add_argument("-n", "--namespace", metavar="NS", default="", help="its namespace")
    parser.add_argument(
        "--from", dest="files", metavar="FILE", type=Path, action="append", default=[],
        help="read files instead of a cluster; may be repeated",
    )  # fmt: skip
    parser.add_argument("--follow", action="store_true", help="continue until the job ends or Ctrl-C")
    parser.add_argument("--save", metavar="FILE", type=Path, help="write the evidence to a file for --from")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--all", action="store_true", help="print every suspected cause, and what each judge saw"
    )
    parser.add_argument(
        "--kubeconfig", metavar="FILE", type=Path, help="default: $KUBECONFIG, then ~/.kube/config"
    )
    parser.add_argument(
        "--context", metavar="NAME", help="context of the kubeconfig; default: its current one"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options = parser().parse_args(arguments)
    kind, name = _subject(options.job)
    if options.files:
        if options.follow or options.save:
            raise common.CliError("diagnose: --follow and --save need a cluster, --from reads files")
        with common.reading(options.files, "diagnosed"):
            return _of_files(options, kind, name)
    if not name:
        raise common.CliError("diagnose: name the job, KIND/NAME such as vcjob/smoke, or files with --from")
    return _of_cluster(options, _key(kind), name)


def _key(word: str) -> str:
    """Return the kind key of a word."""
    from pytest_gpucluster.cli import relating

    key = relating.key_of(word)
    if key is None:
        common.choose(word, relating.words(), "kind")
    return str(key)


def _subject(subject: str | None) -> tuple[str, str]:
    """Return (kind in lower case, name) from `vcjob/NAME`, or another title that a diagnosis prints."""
    if subject is None:
        return "", ""
    kind, slash, name = subject.partition("/")
    if not slash:
        raise common.CliError(f"diagnose: {subject!r}: expected KIND/NAME, such as vcjob/{subject}")
    if not kind or not name or "/" in name:
        raise common.CliError(f"diagnose: {subject!r}: expected KIND/NAME, such as vcjob/smoke")
    return kind.lower(), name


# -- files -----------------------------------------------------------------------------------------------------------


def _of_files(options: Any, kind: str, name: str) -> int:
    from pytest_gpucluster import diagnose

    judges = _judges()
    try:
        found = _diagnoses(_read(options.files), options, kind, name, judges)
    except diagnose.ODD as error:
        files = ", ".join(map(str, options.files))
        raise common.CliError(
            f"{files}: a field of an object has another type than the Kubernetes API gives it ({error}); expected what "
            "kubectl prints with -o json, unchanged"
        ) from None
    return _report(found, options)


def _diagnoses(
    evidence: "Evidence", options: Any, kind: str, name: str, judges: Mapping[str, "Judge"]
) -> list["Diagnosis"]:
    from pytest_gpucluster import diagnose

    told = evidence.header.get("subject") if not name else None
    if isinstance(told, Mapping):
        name, options.namespace = str(told.get("name") or ""), str(told.get("namespace") or "")
    found = diagnose.subjects(evidence, name, options.namespace, kind)
    if not found:
        _not_there(evidence, options, f"{kind or 'vcjob'}/{name}" if name else "")
    return [diagnose.diagnose(one, judges) for one in found]


def _read(files: Sequence[Path]) -> "Evidence":
    from pytest_gpucluster import diagnose
    from pytest_gpucluster.evidence.log import cleaning, errors, ingest

    for file in files:
        common.existing(file, "file")
    try:
        return cleaning.cleaned(diagnose.revive(ingest.read(files)))
    except errors.EvidenceError as error:
        said = diagnose.said_in_words(files)
        if said is not None:
            return cleaning.cleaned(said)
        raise common.CliError(str(error)) from None


def _not_there(evidence: "Evidence", options: Any, title: str) -> None:
    from pytest_gpucluster import diagnose
    from pytest_gpucluster.plain import names

    files = ", ".join(map(str, options.files))
    known = sorted({one.title.partition(" ")[0] for one in diagnose.subjects(evidence) if one.name})
    space = f" in namespace {options.namespace!r}" if options.namespace else ""
    if title:
        kind, _, name = title.partition("/")
        if all(one.lower().startswith(f"{kind}/") for one in known):
            title, known = f"{kind} {name!r}", [one.partition("/")[2] for one in known]
            match = names.nearest(name, known)
            hint = f"; did you mean {match!r}?" if match else ""
        else:
            match = names.nearest(title, known)
            hint = f"; did you mean {match}?" if match else ""
        more = f"{', '.join(known[:12])}{' ...' if len(known) > 12 else ''}" if known else "there are none"
        raise common.CliError(f"{files}: no {title}{space}{hint} ({more})")
    answer = next((line.object.get("message") for line in evidence.of_kind("Status")), None)
    if answer:
        raise common.CliError(f"{files}: the API server answered with an error, not with objects: {answer}")
    kinds = ", ".join(sorted(evidence.kinds)) or "none"
    raise common.CliError(f"{files}: no job and no pod{space} (kinds found: {kinds})")


# -- a cluster -------------------------------------------------------------------------------------------------------


def _of_cluster(options: Any, key: str, name: str) -> int:
    from pytest_gpucluster.cli import diagnose_follow, job_snapshot, relating, tellable
    from pytest_gpucluster.kube import errors
    from pytest_gpucluster.kube.objects import Objects
    from pytest_gpucluster.plain import names

    config = _kubeconfig(options.kubeconfig)
    namespace = options.namespace or _namespace(config, options.context)
    try:
        connection = _connect(config, options.context)
        api = Objects(connection)
        collector = (
            job_snapshot.Collector(api, namespace, name)
            if key == names.VC_JOB
            else relating.Related(api, namespace, name, key)
        )
        collected = tellable.of(collector.collect(), collector)
        _exists(collector, collected)
        _readable(collector, collected)
        judges = _judges()
        if options.follow:
            last, collected = diagnose_follow.follow(
                collector, collected, judges, lambda one: _show(one, options)
            )
            found = [last]
        else:
            found = diagnose_follow.look(collector, collected, judges)
    except errors.GpuClusterError as error:
        raise common.CliError(str(error), status=3) from None
    if options.save:
        _save(options.save, collected, _told(found[0], collector), namespace)
    return STATUS[found[0].state.value] if options.follow else _report(found, options)


def _told(found: "Diagnosis", collector: "Collector") -> tuple[str, str]:
    """Return (kind, name) of what was diagnosed, by which a dump finds it again."""
    kind, slash, rest = found.subject.partition(" ")[0].partition("/")
    return (kind, rest) if slash else (collector.kind, collector.name)


def _connect(config: Path, context: str | None) -> "Connection":
    from pytest_gpucluster.kube.connection import Connection

    return Connection.open(config, context)


def _kubeconfig(stated: Path | None) -> Path:
    if stated is not None:
        return common.existing(stated, "kubeconfig")
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    for path in named or [Path.home() / ".kube" / "config"]:
        if path.is_file():
            return path
    tried = ", ".join(map(str, named)) or "~/.kube/config"
    raise common.CliError(
        f"diagnose: no kubeconfig ({tried} does not exist): name one with --kubeconfig, or use --from"
    )


def _namespace(config: Path, context: str | None) -> str:
    """Return the namespace of the context, as kubectl takes it."""
    import yaml

    try:
        data = yaml.safe_load(config.read_text(encoding="utf-8")) or {}
        wanted = context or data.get("current-context")
        found = next(c for c in data.get("contexts") or [] if c.get("name") == wanted)
        return str((found.get("context") or {}).get("namespace") or "default")
    except (OSError, yaml.YAMLError, StopIteration, AttributeError, UnicodeDecodeError):
        return "default"  # what is wrong with the file is said by whoever connects with it


def _exists(collector: "Collector", collected: "Collected") -> None:
    """Refuse to diagnose a job that is known not to exist."""
    from pytest_gpucluster.cli.job_snapshot import JOB, near

    if collector.absent:
        raise common.CliError(collector.absent)
    name, namespace = collector.name, collector.namespace
    if collector.kind == "" and JOB.key in collected.looked and name not in collected.jobs:
        known = near(name, collected.jobs)
        raise common.CliError(f"no vcjob {name!r} in namespace {namespace!r}{known}")


def _readable(collector: "Collector", collected: "Collected") -> None:
    """Refuse to diagnose a job of which nothing may be read: no word about it would be worth anything."""
    from pytest_gpucluster.cli import job_snapshot, relating
    from pytest_gpucluster.plain import plurals

    key = getattr(collector, "key", "") or job_snapshot.JOB.key
    barred = {str(one["case"]): one for one in collected.extra if one.get("code") in FORBIDDEN}
    wanted = [f"collect:{key}", *([f"collect:{job_snapshot.POD.key}"] if key != job_snapshot.POD.key else [])]
    if any(case not in barred for case in wanted) or any(
        _told_of(obj, collector) for obj in collected.objects
    ):
        return
    first = barred[wanted[0]]
    kind = relating.SUBJECTS[key][0]
    raise common.CliError(
        f"diagnose: nothing may be read of {collector.kind or 'vcjob'}/{collector.name} -n {collector.namespace}: "
        f"{plurals.count(len(collected.extra), 'read')} failed, the first one says {first['status']['message']!r}; "
        f"whoever looks needs get and list on {kind.plural}, pods and events there, and get on pods/log",
        status=3,
    )


def _told_of(obj: Mapping[str, Any], collector: "Collector") -> bool:
    """Report whether an object that was read is the job, a pod of it, or an event about it."""
    kind, metadata = obj.get("kind"), obj.get("metadata") or {}
    if kind == "Pod":
        return collector.own(obj)
    return kind == "Event" or (kind != "Namespace" and metadata.get("name") == collector.name)


def _save(path: Path, collected: "Collected", subject: tuple[str, str], namespace: str) -> None:
    from pytest_gpucluster import diagnose
    from pytest_gpucluster.plain import private

    kind, name = subject
    header = {"subject": {"kind": kind, "name": name, "namespace": namespace}, "looked": collected.looked}
    lines = diagnose.to_lines(collected.objects, collected.now, collected.logs, collected.extra, **header)
    try:
        private.write(path, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise common.CliError(f"--save {path}: cannot be written: {error.strerror}") from None


# -- what both share -------------------------------------------------------------------------------------------------


def _judges() -> Mapping[str, "Judge"]:
    """Return the judges of the shipped suite that can say something about one job, by requirement."""
    return {row.id: row.decide for row in common.registry() if row.id.partition("-")[0] in FAMILIES}


def _report(found: Sequence["Diagnosis"], options: Any) -> int:
    if options.json:
        told = [one.as_dict() for one in found]
        common.say_json(told[0] if len(told) == 1 else told)
    else:
        for number, one in enumerate(found):
            if number:
                common.say()
            _show(one, options)
    codes = [STATUS[one.state.value] for one in found]
    return 1 if 1 in codes else max(codes)


def _show(one: "Diagnosis", options: Any) -> None:
    import sys

    from pytest_gpucluster import diagnose

    if options.json:
        common.say_json(one.as_dict(), indent=None)
    else:
        common.say(diagnose.render(one, full=options.all))
    sys.stdout.flush()
