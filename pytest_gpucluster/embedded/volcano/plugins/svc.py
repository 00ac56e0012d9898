"""Plugin `svc`: names for the pods of a Job (headless Service, hosts files, environment)."""

from collections.abc import Sequence

from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.objects import Obj, name_of, namespace_of, owner_reference
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.embedded.volcano.plugins import flags
from pytest_gpucluster.embedded.volcano.plugins.base import add_env, add_mount, everything, hosts

MOUNT_PATH = "/etc/volcano"
DEFAULTS = {"publish-not-ready-addresses": "false", "disable-network-policy": "false"}


class SvcPlugin:
    """Makes `<job>` (Service), `<job>-svc` (ConfigMap) and `<job>` (NetworkPolicy)."""

    name = "svc"

    def __init__(
        self, arguments: Sequence[str], *, without_service: bool = False, without_files: bool = False
    ) -> None:
        """Read the arguments.

        Args:
            arguments: `--publish-not-ready-addresses`, `--disable-network-policy`.
            without_service: Make everything but the Service (a defect).
            without_files: Mount nothing (a defect).
        """
        given = flags.parse(arguments, DEFAULTS)
        self._publish = flags.is_true(given["publish-not-ready-addresses"])
        self._policy = not flags.is_true(given["disable-network-policy"])
        self._service = not without_service
        self._files = not without_files

    def on_pod(self, pod: Obj, job: Obj, task: Obj, index: int) -> None:  # noqa: ARG002
        """Give the pod its host name, the hosts of all tasks, and the mounted hosts files."""
        spec = pod["spec"]
        spec["hostname"] = spec.get("hostname") or name_of(pod)
        spec["subdomain"] = spec.get("subdomain") or name_of(job)
        config = f"{name_of(job)}-svc"
        keys = [
            f"VC_{_upper(other)}_{end}"
            for other in job["spec"].get("tasks") or []
            for end in ("HOSTS", "NUM")
        ]
        add_env(
            everything(pod),
            [{"name": key, "valueFrom": {"configMapKeyRef": {"key": key, "name": config}}} for key in keys],
        )
        if not self._files:
            return
        add_mount(everything(pod), {"name": config, "mountPath": MOUNT_PATH})
        volume = {"name": config, "configMap": {"name": config, "defaultMode": 420}}
        spec.setdefault("volumes", []).append(volume)

    def on_job(self, job: Obj, store: Store) -> None:
        """Create the objects that are missing."""
        for kind, body in self._objects(job):
            if store.peek(kind, namespace_of(job), body["metadata"]["name"]) is None:
                create_owned(store, kind, body, job)

    def on_end(self, job: Obj, store: Store) -> None:
        """Delete the objects."""
        for kind, body in self._objects(job):
            store.delete(kind, namespace_of(job), body["metadata"]["name"])

    def _objects(self, job: Obj) -> list[tuple[str, Obj]]:
        name = name_of(job)
        selector = {names.JOB_NAME: name, names.JOB_NAMESPACE: namespace_of(job)}
        config = {"metadata": {"name": f"{name}-svc"}, "data": _hosts_data(job)}
        out: list[tuple[str, Obj]] = [("ConfigMap", config)]
        if self._service:
            spec: Obj = {"clusterIP": "None", "selector": dict(selector), "type": "ClusterIP"}
            if self._publish:
                spec["publishNotReadyAddresses"] = True
            out.append(("Service", {"metadata": {"name": name}, "spec": spec}))
        if self._policy:
            peers = {"matchLabels": dict(selector)}
            rules: Obj = {
                "podSelector": peers,
                "ingress": [{"from": [{"podSelector": peers}]}],
                "policyTypes": ["Ingress"],
            }
            out.append(("NetworkPolicy", {"metadata": {"name": name}, "spec": rules}))
        return out


def create_owned(store: Store, kind: str, body: Obj, job: Obj) -> None:
    """Create an object in the Job's namespace with the Job as its controller."""
    body["metadata"]["namespace"] = namespace_of(job)
    body["metadata"]["ownerReferences"] = [owner_reference(job)]
    try:
        store.create(kind, body)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


def _upper(task: Obj) -> str:
    return str(task["name"]).replace("-", "_").upper()


def _hosts_data(job: Obj) -> dict[str, str]:
    out: dict[str, str] = {}
    for task in job["spec"].get("tasks") or []:
        listed = hosts(job, task)
        out[f"{str(task['name']).replace('-', '_')}.host"] = "\n".join(listed)
        out[f"VC_{_upper(task)}_HOSTS"] = ",".join(listed)
        out[f"VC_{_upper(task)}_NUM"] = str(len(listed))
    return out
