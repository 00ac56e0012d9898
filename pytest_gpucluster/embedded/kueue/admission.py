"""Kueue's admission webhooks: what they fill in, and what they refuse with code 403."""

from collections.abc import Iterable

from pytest_gpucluster.embedded.admission import AdmissionHook
from pytest_gpucluster.embedded.errors import denied, webhook_failed
from pytest_gpucluster.embedded.kueue import names
from pytest_gpucluster.embedded.kueue.schema import default_cluster_queue, normalize
from pytest_gpucluster.embedded.kueue.settings import Settings, takes_every_job
from pytest_gpucluster.embedded.kueue.workloads import is_suspended, queue_of
from pytest_gpucluster.embedded.names import QUALIFIED_RULE, SUBDOMAIN_RULE, is_qualified, is_subdomain
from pytest_gpucluster.embedded.objects import Obj, labels_of, namespace_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.plain.quantities import parse_quantity

JOB_HOOK = "vjob.kb.io"
CLUSTER_QUEUE_HOOK = "vclusterqueue.kb.io"
LABEL_PATH = f"metadata.labels[{names.QUEUE_LABEL}]"
IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"


def hooks(runtime: Runtime, settings: Settings) -> list[AdmissionHook[Store]]:
    """Return the webhooks; those of Jobs answer nothing under the defect `kueue.starts-before-admission`."""
    out = [
        AdmissionHook(names.CLUSTER_QUEUE, "CREATE", _fill_in, "mutating"),
        AdmissionHook(names.CLUSTER_QUEUE, "CREATE", _check_queue, "validating"),
        AdmissionHook(names.CLUSTER_QUEUE, "UPDATE", _check_queue, "validating"),
        AdmissionHook(names.FLAVOR, "CREATE", _hold, "mutating"),
    ]

    def absent() -> bool:
        return runtime.has("kueue.starts-before-admission")

    def suspend(job: Obj, old: Obj | None, store: Store) -> Obj:  # noqa: ARG001
        if absent():
            return job
        _default_queue(job, store)
        queue = queue_of(job)
        unknown = bool(queue) and store.peek(names.LOCAL_QUEUE, namespace_of(job), queue) is None
        every = takes_every_job(settings, runtime.has) and namespace_of(job) not in names.UNMANAGED
        forgiven = unknown and runtime.has("kueue.unknown-queue-runs")
        if (bool(queue) or every) and not forgiven:
            job.setdefault("spec", {})["suspend"] = True
        return job

    def check(job: Obj, old: Obj | None, store: Store) -> Obj:
        return job if absent() else _check_job(job, old, store)

    return [
        *out,
        AdmissionHook(names.JOB, "CREATE", suspend, "mutating"),
        AdmissionHook(names.JOB, "CREATE", check, "validating"),
        AdmissionHook(names.JOB, "UPDATE", check, "validating"),
    ]


def unreachable() -> list[AdmissionHook[Store]]:
    """Return webhooks that nobody answers: what they would look at is refused, since their failure policy is Fail."""

    def fail(obj: Obj, old: Obj | None, store: Store) -> Obj:  # noqa: ARG001
        key = "job" if obj["kind"] == "Job" else str(obj["kind"]).lower()
        group = "batch-v1" if key == "job" else "kueue-x-k8s-io-v1beta2"
        service = f"kueue-webhook-service.{names.SYSTEM_NAMESPACE}.svc:443"
        url = f"https://{service}/mutate-{group}-{key}?timeout=10s"
        raise webhook_failed(
            f"m{key}.kb.io", f'Post "{url}": dial tcp 10.96.7.7:443: connect: connection refused'
        )

    kinds = (names.JOB, names.CLUSTER_QUEUE, names.FLAVOR)
    return [AdmissionHook(kind, "CREATE", fail, "mutating") for kind in kinds]


def _default_queue(job: Obj, store: Store) -> None:
    """Give a Job without a queue the LocalQueue `default` of its namespace, where there is one."""
    there = store.peek(names.LOCAL_QUEUE, namespace_of(job), names.DEFAULT_QUEUE) is not None
    if there and not queue_of(job):
        meta = job["metadata"]
        meta["labels"] = {**labels_of(job), names.QUEUE_LABEL: names.DEFAULT_QUEUE}


def _check_job(job: Obj, old: Obj | None, store: Store) -> Obj:
    queue = labels_of(job).get(names.QUEUE_LABEL)
    out: list[str] = []
    if queue is not None and not is_subdomain(queue):
        out.append(_bad(LABEL_PATH, queue, SUBDOMAIN_RULE))
    if old is not None:
        if not is_suspended(job) and queue_of(job) != queue_of(old):
            out.append(_bad(LABEL_PATH, queue_of(job), IMMUTABLE))
        default = store.peek(names.LOCAL_QUEUE, namespace_of(old), names.DEFAULT_QUEUE)
        if not queue_of(job) and queue_of(old) and default is not None:
            why = "queue-name must not be empty in namespace with default queue"
            out.append(_bad(LABEL_PATH, "", why))
    _refuse(JOB_HOOK, out)
    return job


def _fill_in(queue: Obj, old: Obj | None, store: Store) -> Obj:
    default_cluster_queue(queue)
    normalize(queue)
    return _hold(queue, old, store)


def _hold(obj: Obj, old: Obj | None, store: Store) -> Obj:  # noqa: ARG001
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if names.IN_USE not in finalizers:
        finalizers.append(names.IN_USE)
    return obj


def _check_queue(queue: Obj, old: Obj | None, store: Store) -> Obj:  # noqa: ARG001
    spec = queue["spec"]
    out: list[str] = []
    seen: set[str] = set()
    flavors: set[str] = set()
    for i, group in enumerate(spec.get("resourceGroups") or []):
        where = f"spec.resourceGroups[{i}]"
        covered = group.get("coveredResources") or []
        for j, resource in enumerate(covered):
            path = f"{where}.coveredResources[{j}]"
            if not is_qualified(resource):
                out.append(_bad(path, resource, QUALIFIED_RULE))
            if resource in seen:
                out.append(f'{path}: Duplicate value: "{resource}"')
            seen.add(resource)
        for j, flavor in enumerate(group.get("flavors") or []):
            path = f"{where}.flavors[{j}]"
            out += _quotas(flavor, covered, path, has_cohort=bool(spec.get("cohortName")))
            if flavor["name"] in flavors:
                out.append(f'{path}.name: Duplicate value: "{flavor["name"]}"')
            flavors.add(flavor["name"])
    _refuse(CLUSTER_QUEUE_HOOK, out)
    return queue


def _quotas(flavor: Obj, covered: list[str], where: str, *, has_cohort: bool) -> Iterable[str]:
    for i, resource in enumerate((flavor.get("resources") or [])[: len(covered)]):
        path = f"{where}.resources[{i}]"
        if resource["name"] != covered[i]:
            yield _bad(f"{path}.name", resource["name"], "must match the name in coveredResources")
        for name in ("nominalQuota", "borrowingLimit", "lendingLimit"):
            stated = resource.get(name)
            if stated is None:
                continue
            if parse_quantity(str(stated)) < 0:
                yield _bad(f"{path}.{name}", stated, NOT_NEGATIVE)
            if name != "nominalQuota" and not has_cohort:
                yield _bad(f"{path}.{name}", stated, "must be nil when cohort is empty")
        lending, nominal = resource.get("lendingLimit"), resource.get("nominalQuota", "0")
        if lending is not None and parse_quantity(str(lending)) > parse_quantity(str(nominal)):
            yield _bad(f"{path}.lendingLimit", lending, "must be less than or equal to the nominalQuota")


def _bad(path: str, value: object, why: str) -> str:
    return f'{path}: Invalid value: "{value}": {why}'


def _refuse(webhook: str, problems: list[str]) -> None:
    """Refuse with every complaint in one message.

    Raises:
        ApiError: 403.
    """
    if problems:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise denied(webhook, text)
