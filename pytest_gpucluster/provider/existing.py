"""A cluster that exists: a kubeconfig file and a context in it; nothing is started."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pytest_gpucluster.plain import names
from pytest_gpucluster.profile import LoadedProfile
from pytest_gpucluster.provider.protocol import PODS_RUN, START_LIMIT, Cluster, ProviderError, Started


class ExistingProvider:
    """Reads a kubeconfig file, never writes it."""

    start_limit = START_LIMIT
    real = True

    def verify(self, loaded: LoadedProfile) -> None:
        """Check that the file is there and has the context.

        Raises:
            ProviderError: one line with file, context and what is allowed.
        """
        _server(loaded)

    def completed(self, loaded: LoadedProfile) -> LoadedProfile:
        """Return it as it is: nobody but the operator declares it."""
        return loaded

    def kept(self, loaded: LoadedProfile, run_folder: Path, *, asked: bool) -> str:
        """Return that the objects of the run stay, if anybody asked for it."""
        del loaded
        text = (
            f"the objects of this run stay on the cluster; remove them with: gpucluster cleanup {run_folder}"
        )
        return text if asked else ""

    def undo(self, undo: Mapping[str, str]) -> str:
        """Nothing was started."""
        del undo
        return ""

    def start(
        self, loaded: LoadedProfile, run_folder: Path, *, defects: Sequence[str], owner_pid: int
    ) -> tuple[Started, Sequence[Any]]:
        """Return the cluster as it is declared."""
        del run_folder, defects, owner_pid
        profile = loaded.profile
        server = _server(loaded)
        kubeconfig, context = _declared(loaded)
        cluster = Cluster(
            name=profile.name,
            provider=profile.provider,
            kubeconfig=kubeconfig,
            context=context,
            features=frozenset({PODS_RUN} if profile.nodes != "simulated" else ()),
            facts={"server": server},
            images=dict(profile.images),
        )
        return Started(cluster), ()


def _declared(loaded: LoadedProfile) -> tuple[str, str]:
    connection = loaded.profile.connection
    if connection is None:
        raise ProviderError(f"cluster {loaded.profile.name!r}: the profile declares no connection")
    return connection.kubeconfig, connection.context


def _server(loaded: LoadedProfile) -> str:
    """Return the server's URL of the declared context."""
    kubeconfig, context = _declared(loaded)
    where = loaded.sources.get("connection.kubeconfig", "connection.kubeconfig")
    path = Path(kubeconfig)
    if not path.is_file():
        raise ProviderError(f"{where}: kubeconfig file {kubeconfig} does not exist")
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        contexts = {c["name"]: c["context"]["cluster"] for c in data.get("contexts") or []}
        servers = {c["name"]: c["cluster"]["server"] for c in data.get("clusters") or []}
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise ProviderError(
            f"kubeconfig {kubeconfig} cannot be read: {' '.join(str(error).split())}"
        ) from None
    except (AttributeError, KeyError, TypeError):
        raise ProviderError(f"kubeconfig {kubeconfig} has no contexts and clusters") from None
    if context not in contexts:
        raise ProviderError(
            f"{loaded.sources.get('connection.context', 'connection.context')}: kubeconfig {kubeconfig} has no "
            f"context {context!r}{names.did_you_mean(context, contexts)}"
        )
    return str(servers.get(contexts[context], ""))
