"""Batch Jobs: defaults, selector and validation."""

from pytest_gpucluster.embedded import errors
from pytest_gpucluster.embedded.errors import Cause
from pytest_gpucluster.embedded.kinds.pod_rules import validate_pod_spec
from pytest_gpucluster.embedded.kinds.pods import default_pod_spec
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.plain.copies import clone

BACKOFF_LIMIT = 6
"""Failures after which a Job that states no limit is failed."""

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"

_MODES = ("Indexed", "NonIndexed")


def default_job(job: Obj) -> None:
    """Fill in the defaults of a Job, its selector and the labels of its pods, in place."""
    spec = job.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = BACKOFF_LIMIT
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault(
        "podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    )
    template = spec.setdefault("template", {})
    _label_template(job, template)
    pod_spec = template.setdefault("spec", {})
    stated = pod_spec.get("restartPolicy")
    default_pod_spec(pod_spec)
    if stated is None:
        del pod_spec["restartPolicy"]  # a Job has to state it; the default is not among its choices
    job.setdefault("status", {})


def _label_template(job: Obj, template: Obj) -> None:
    meta, spec = job["metadata"], job["spec"]
    if not spec["manualSelector"]:
        spec["selector"] = {"matchLabels": {CONTROLLER_UID: meta["uid"]}}
    pod_meta = template.get("metadata")
    if pod_meta is None:
        pod_meta = template["metadata"] = {}
    labels = pod_meta.get("labels") or {}
    labels |= {CONTROLLER_UID: meta["uid"], JOB_NAME: meta["name"]}
    labels |= {"controller-uid": meta["uid"], "job-name": meta["name"]}
    pod_meta["labels"] = labels
    if not meta.get("labels"):
        meta["labels"] = dict(labels)


def validate_job(job: Obj, old: Obj | None) -> list[Cause]:
    """Return why a Job is refused."""
    spec = job["spec"]
    out: list[Cause] = []
    for field in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"):
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            out.append(errors.bad_value(f"spec.{field}", value, "must be greater than or equal to 0"))
    if spec["completionMode"] not in _MODES:
        out.append(errors.not_supported("spec.completionMode", spec["completionMode"], _MODES))
    elif spec["completionMode"] == "Indexed" and spec.get("completions") is None:
        out.append(errors.required("spec.completions", "when completion mode is Indexed"))
    pod_spec = spec["template"]["spec"]
    causes = validate_pod_spec({"restartPolicy": "Never", **pod_spec}, "spec.template.spec")
    policy = pod_spec.get("restartPolicy")
    if policy is None:
        text = 'valid values: "OnFailure", "Never"'
        causes.append(errors.required("spec.template.spec.restartPolicy", text))
    elif policy == "Always":
        causes.append(
            errors.not_supported("spec.template.spec.restartPolicy", policy, ("OnFailure", "Never"))
        )
    return out + causes + (_fixed(job, old) if old is not None else [])


def _fixed(job: Obj, old: Obj) -> list[Cause]:
    out: list[Cause] = []
    fields = ["selector", "completionMode"]
    if old["spec"]["completionMode"] != "Indexed":
        fields.append("completions")
    suspended = old["spec"].get("suspend") or job["spec"].get("suspend")
    if not suspended and _template(job) != _template(old):
        out.append(errors.bad_value("spec.template", "{...}", "field is immutable"))
    out += [
        errors.bad_value(f"spec.{f}", str(job["spec"].get(f)), "field is immutable")
        for f in fields
        if job["spec"].get(f) != old["spec"].get(f)
    ]
    return out


def _template(job: Obj) -> Obj:
    return clone(job["spec"]["template"])
