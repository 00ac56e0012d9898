"""An embedded cluster in which defects are switched on and off, and rows of the suite that are decided on it."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from pytest_gpucluster import profile, provider
from pytest_gpucluster.plain import names
from pytest_gpucluster.profile.defects import declared
from pytest_gpucluster.provider import defects, switching
from pytest_gpucluster.provider.embedded import EmbeddedProvider
from pytest_gpucluster.report import decisions
from pytest_gpucluster.requirement import Finding, Requirement
from pytest_gpucluster.scenario import RunStore, Session


class Lab:
    """One cluster for all defects that can be switched; the others have one of their own. A context manager."""

    def __init__(self, folder: Path) -> None:
        """Describe; the cluster is started for the first defect that is planted.

        Args:
            folder: where clusters and runs keep their files.
        """
        self._folder = folder
        self._loaded = provider.completed(profile.load("embedded"))
        self._held: provider.Held | None = None
        self._clusters = 0
        self._runs = 0

    def __enter__(self) -> Self:
        """Return the laboratory."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the cluster."""
        self._drop()

    @contextlib.contextmanager
    def planted(self, *planted: str) -> Iterator[provider.Cluster]:
        """Have a cluster in which exactly these defects are in force, none for a healthy one.

        What goes wrong meanwhile ends the shared cluster: the next defect begins with a new one.
        """
        if defects.at_start() & set(planted):
            with provider.start(self._loaded, self._new_folder(), planted) as own:
                yield own
            return
        try:
            yield switching.switch(self._shared(), planted)
        except BaseException:
            self._drop()
            raise

    def verdicts(self, cluster: provider.Cluster, rows: Sequence[Requirement]) -> dict[str, str]:
        """Return row -> verdict; see `decided`."""
        return {row: str(finding.verdict) for row, finding in self.decided(cluster, rows).items()}

    def decided(self, cluster: provider.Cluster, rows: Sequence[Requirement]) -> dict[str, Finding]:
        """Run the scenarios of rows on a cluster, clean up after them, and decide; returns row -> finding.

        Every evidence must name the defects that were in force when it was taken down.
        """
        wanted = list(cluster.facts.get(defects.FACT, ()))
        with self._session(cluster, wanted) as session:
            evidence = {
                name: session.evidence(of) for name, of in {r.scenario.name: r.scenario for r in rows}.items()
            }
        session.check_clean()
        for each in evidence.values():
            assert each.header["source"].get(defects.FACT, []) == wanted
        return {row.id: decisions.decide(row, evidence[row.scenario.name]) for row in rows}

    def _session(self, cluster: provider.Cluster, wanted: Sequence[str]) -> Session:
        self._runs += 1
        run = names.safe_name(f"{self._runs}-{'-'.join(wanted) or 'healthy'}")
        profile = declared(self._loaded.profile, wanted)
        return Session(cluster, profile, RunStore(self._folder / "runs" / run))

    def _shared(self) -> provider.Cluster:
        if self._held is None:
            source = EmbeddedProvider(switchable=True)
            self._held = provider.obtain(self._loaded, self._new_folder(), source=source)
        return self._held.cluster

    def _new_folder(self) -> Path:
        self._clusters += 1
        return self._folder / f"cluster-{self._clusters}"

    def _drop(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            left = held.close()
            assert not left, left
