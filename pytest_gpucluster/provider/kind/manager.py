"""pytest-kubernetes' manager of kind clusters, made to say what went wrong and to run without a shell."""

import os
import subprocess
from pathlib import Path
from typing import Any

from pytest_gpucluster.provider import commands
from pytest_gpucluster.provider.kind import engine as engines
from pytest_gpucluster.provider.protocol import ProviderError

CREATE_LIMIT = 900
"""Seconds for a cluster to be made; the node image may have to be pulled."""

MISSING = "--cluster=kind: pytest-kubernetes is not installed: pip install pytest-gpucluster[kind]"


def check() -> None:
    """Check that pytest-kubernetes is there.

    Raises:
        ProviderError: it is not; one line that offers the embedded cluster.
    """
    try:
        import pytest_kubernetes.providers  # noqa: F401
    except ImportError:
        raise ProviderError(f"{MISSING}{engines.OFFER}") from None


def manager(engine: engines.Engine, config: Path, kubeconfig: Path, log: Path) -> Any:
    """Return a manager of the cluster that a configuration describes.

    Args:
        engine: kind and its engine.
        config: the cluster's configuration, which names it.
        kubeconfig: where its kubeconfig is written; never the user's own.
        log: file for what kind says.

    Raises:
        ProviderError: pytest-kubernetes is not installed.
    """
    check()
    from pytest_kubernetes.providers import select_provider_manager

    base: Any = select_provider_manager("kind")

    class Manager(base):  # type: ignore[misc]
        """Argument lists in place of a shell; the state of the cluster is asked of kind, not of kubectl."""

        def _exec(
            self,
            arguments: list[str],
            additional_env: dict[str, str] | None = None,
            timeout: int | None = None,
        ) -> "subprocess.CompletedProcess[bytes]":
            command = [engine.kind, *arguments]
            env = {**engine.environment, **(additional_env or {})}
            out = commands.run(command, limit=timeout or CREATE_LIMIT, log=log, environment=env)
            return subprocess.CompletedProcess(command, 0, out.encode(), b"")

        def ready(self, timeout: int = 20) -> bool:
            """Report whether the cluster is there; that its nodes are Ready is waited for by watch."""
            del timeout
            return self.cluster_name in engine.clusters()

        def export(self) -> None:
            """Write the kubeconfig of a cluster that was there already."""
            self._exec(["export", "kubeconfig", "--name", self.cluster_name, "--kubeconfig", str(kubeconfig)])

        def load_archive(self, archive: Path, nodes: list[str]) -> None:
            """Load an image archive into the container runtimes of nodes."""
            self._exec(
                [
                    "load",
                    "image-archive",
                    str(archive),
                    "--name",
                    self.cluster_name,
                    "--nodes",
                    ",".join(nodes),
                ]
            )

    made = Manager("x", provider_config=str(config), kubeconfig=kubeconfig)
    # kind writes it with the rights that the file has.
    os.close(os.open(kubeconfig, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    return made
