"""The components whose versions matter, and where they are installed unless somebody says otherwise."""

from collections.abc import Mapping

NAMES = ("kubernetes", "volcano", "kueue", "gpu-operator", "network-operator", "driver", "nccl", "trainer")
"""Every component that a support matrix may name."""

NAMESPACES: Mapping[str, str] = {
    "volcano": "volcano-system",
    "kueue": "kueue-system",
    "gpu-operator": "gpu-operator",
    "network-operator": "nvidia-network-operator",
    "trainer": "kubeflow-system",
}
"""Component that runs as Deployments -> the namespace into which its own documentation installs it."""


def namespace(component: str, told: Mapping[str, str]) -> str:
    """Return where a component is installed.

    Args:
        component: one of `NAMESPACES`.
        told: component -> namespace, for those that are somewhere else (profile key `namespaces`).
    """
    return told.get(component, NAMESPACES[component])
