"""Before a run: all that it was told is checked, in one line of error each; no cluster is touched, no folder made."""

import contextlib
import os
import tempfile
from collections.abc import Collection
from pathlib import Path

import pytest

from pytest_gpucluster import profile, provider
from pytest_gpucluster.hooks import backend, run_folder, settings, waivers
from pytest_gpucluster.hooks.run import Run
from pytest_gpucluster.report import record, seal, whole


def prepare(config: pytest.Config, scenarios: Collection[str]) -> Run:
    """Check everything that was told and return the run; touches no cluster and makes no folder.

    Args:
        config: pytest's configuration.
        scenarios: names of the scenarios that the selected requirements need.

    Raises:
        pytest.UsageError: one line: what, where, allowed, nearest.
    """
    told = settings.resolve(config)
    try:
        loaded = profile.load(
            told.cluster,
            told.search(),
            os.environ,
            told.overrides["ini"],
            told.overrides["option"],
            given=told.leaves(),
        )
        if told.kind and loaded.profile.provider != "kind":
            name = next(iter(told.kind))
            raise pytest.UsageError(
                f"{told.sources[name]}: only for a kind cluster (--cluster=kind), this one is "
                f"{loaded.profile.provider!r}"
            )
        waivers.check(loaded)
        provider.check_defects(told.defects, loaded.profile.provider)
        loaded, note = _checked(loaded, told) if told.reuse is None else (loaded, "")
    except (profile.ProfileError, provider.ProviderError) as error:
        raise pytest.UsageError(str(error)) from None
    if told.reuse is not None and not (told.reuse / backend.EVIDENCE_FOLDER).is_dir():
        raise pytest.UsageError(
            f"--gpucluster-reuse: {told.reuse} is not the folder of a run: it has no folder {backend.EVIDENCE_FOLDER}/"
        )
    if told.reuse is not None:
        _check_unchanged(told.reuse, gate=told.gate)
    if told.keep and len(scenarios) > 1:
        # What one scenario leaves, such as the blocker that makes it scarce, would falsify the next.
        raise pytest.UsageError(
            f"{told.sources['keep']}: keeps the objects of one scenario, but {len(scenarios)} are selected "
            f"({', '.join(sorted(scenarios))}): select rows of one, such as with -k GANG-002"
        )
    if not told.plan:
        _check_writable(told.report_dir, told.sources.get("report_dir", "default"))
    given = getattr(config, "workerinput", {}).get("gpucluster", {})
    if given:
        return Run(
            told,
            loaded,
            Path(given["folder"]),
            owner_pid=given["owner_pid"],
            began=given["began"],
            worker=config.workerinput["workerid"],  # type: ignore[attr-defined]
        )
    made = Run(told, loaded, run_folder.new_folder(told))
    made.notes = [note] if note else []
    return made


def _checked(loaded: profile.LoadedProfile, told: settings.Settings) -> tuple[profile.LoadedProfile, str]:
    """Return a profile with what only the place of the cluster tells, and for a plan why that could not be asked.

    Raises:
        ProviderError: what the profile names is not there; a plan does without it.
    """
    try:
        provider.verify(loaded)
        return provider.completed(loaded), ""
    except provider.ProviderError as error:
        if not told.plan:
            raise
        return loaded, f"planned from the profile alone: {error}"


def _check_unchanged(run: Path, *, gate: bool) -> None:
    """Refuse to judge evidence again that was changed since its run; a run that was killed has no sums."""
    wrong = seal.check(run.resolve())
    with contextlib.suppress(record.RecordError):
        # Sums can be made anew: the record of the run has them, too.
        folded, report = record.fold(run / record.JOURNAL), record.load(run)
        if folded["files"] or report["files"]:
            wrong = {**whole.differs(run.resolve(), report, folded), **wrong}
    for name, what in wrong.items():
        if (
            name.startswith(f"{backend.EVIDENCE_FOLDER}/")
            or name == record.JOURNAL
            or (gate and name == seal.SUMS)
        ):
            raise pytest.UsageError(f"--gpucluster-reuse: {run / name}: {what}: it is not judged again")


def _check_writable(report_dir: Path, source: str) -> None:
    at = report_dir
    while not at.exists() and at != at.parent:
        at = at.parent
    if not at.is_dir():
        raise pytest.UsageError(f"{source}: report folder {report_dir} cannot be made: {at} is not a folder")
    if not os.access(at, os.W_OK | os.X_OK):
        raise pytest.UsageError(
            f"{source}: report folder {report_dir} is not writable: no permission in {at}"
        )
    try:
        # Some places, such as /proc, look writable and are not.
        tempfile.TemporaryDirectory(prefix=".gpucluster-", dir=at).cleanup()
    except OSError as error:
        raise pytest.UsageError(
            f"{source}: report folder {report_dir} cannot be made: {error.strerror} in {at}"
        ) from None
