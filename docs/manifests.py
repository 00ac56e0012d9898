"""Write fixtures/manifests from the scenarios, for people with kubectl: `python -m docs.manifests`."""

import argparse
import dataclasses
import pathlib

import yaml

from pytest_gpucluster.promotion.gatekeeper import forms
from pytest_gpucluster.scenario import permissions
from pytest_gpucluster.workload import config_map, dialect_for
from suites.scenarios import healthy, world

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "manifests"
GPU = "nvidia.com/gpu"
GATEKEEPER, PLACE = "gpucluster-gatekeeper", "gpucluster"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def manifests() -> dict[str, str]:
    """Return file name -> YAML text of every manifest."""
    volcano = dialect_for("volcano")
    gang = healthy.spec("gang-smoke", "python", "gang-smoke-payloads", {GPU: healthy.GPUS}, ends=True)
    torch = dataclasses.replace(
        world.robust("torch-smoke", "default"),
        payload="torch-smoke-payloads",
        image="torch",
        resources={GPU: world.PROCESSES},
    )
    return {
        "gang-smoke.yaml": _text(
            "One master and three workers that meet at a barrier; standard library only.",
            config_map("gang-smoke-payloads", "gang.py"),
            volcano.write(gang),
        ),
        "gatekeeper.yaml": _gatekeeper(),
        "torch-smoke.yaml": _text(
            "torchrun over c10d in its robust form, in the namespace default.",
            config_map("torch-smoke-payloads", "world.py"),
            volcano.write(torch),
        ),
    }


def _gatekeeper() -> str:
    """Return the gatekeeper as a Deployment, with the least role that it needs."""
    granted = permissions.roles(forms.wanted(PLACE), GATEKEEPER, namespace=None)
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "here",
                "cluster": {
                    "server": "https://kubernetes.default.svc",
                    "certificate-authority": f"{ACCOUNT}/ca.crt",
                },
            }
        ],
        "users": [{"name": "gatekeeper", "user": {"tokenFile": f"{ACCOUNT}/token"}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "gatekeeper"}}],
        "current-context": "here",
    }
    profile = {
        "provider": "existing",
        "connection": {"kubeconfig": "kubeconfig", "context": "here"},
        "scheduler": "kueue",
        "kueue": {"cluster_queue": "training"},
        "queue": "training",
        "gpu_resource": GPU,
        "gpus_per_node": 8,
    }
    files = {name: yaml.safe_dump(body, sort_keys=False) for name, body in
             (("kubeconfig", kubeconfig), ("prod-a.yaml", profile))}  # fmt: skip
    check = {
        "apiVersion": forms.CHECK.api_version,
        "kind": forms.CHECK.kind,
        "metadata": {"name": "conformance"},
        "spec": {"controllerName": forms.CONTROLLER},
    }
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE}},
        check,
        *granted,
        *permissions.bindings(granted, GATEKEEPER, PLACE),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": GATEKEEPER, "namespace": PLACE},
            "data": files,
        },
        _deployment(),
    ]
    body = yaml.dump_all(objects, Dumper=_Plain, sort_keys=False, width=110)
    return (
        "# A controller of the AdmissionCheck `conformance`: work is let in only while evidence vouches.\n"
        "# Written by python -m docs.manifests. Replace the image by one with pytest-gpucluster, prod-a.yaml by your\n"
        "# profile, and the claim gpucluster-runs by where your pipeline puts the folders of its runs. To compare the\n"
        "# versions of Volcano too, grant `list deployments.apps` in its namespace.\n"
        f"{body}"
    )


class _Plain(yaml.SafeDumper):
    """Writes files within files as they are, and everything where it stands."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Return that nothing is written once and named elsewhere."""
        return True


_Plain.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def _deployment() -> dict[str, object]:
    labels = {"app.kubernetes.io/name": GATEKEEPER}
    command = "gpucluster gatekeeper --check=conformance --runs=/runs --policy=weekly --for=prod-a --profiles=/profiles"
    container = {
        "name": "gatekeeper",
        "image": "registry.example/pytest-gpucluster:0.1.0",
        "command": [*command.split(), f"--lease-namespace={PLACE}", "--health-port=8080"],
        "env": [{"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
        "ports": [{"name": "health", "containerPort": 8080}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 20},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
        # It takes less than 64 MiB; while the gate is read, judging takes the rest for some seconds.
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "runs", "mountPath": "/runs", "readOnly": True},
            {"name": "profiles", "mountPath": "/profiles", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 (in the pod)
        ],
    }
    pod = {
        "serviceAccountName": GATEKEEPER,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "runs", "persistentVolumeClaim": {"claimName": "gpucluster-runs", "readOnly": True}},
            {"name": "profiles", "configMap": {"name": GATEKEEPER}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": GATEKEEPER, "namespace": PLACE, "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _text(about: str, *objects: dict[str, object]) -> str:
    body = yaml.safe_dump_all(objects, sort_keys=False, width=110)
    return f"# {about}\n# Written by python -m docs.manifests; the images are those of the embedded cluster.\n{body}"


def main() -> None:
    """Write the files."""
    for name, text in manifests().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    argparse.ArgumentParser("python -m docs.manifests", description=__doc__).parse_args()
    main()
