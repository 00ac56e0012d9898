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
