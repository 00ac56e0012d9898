"""What a worker that died left on the cluster: removed by the controller, or named."""

from pathlib import Path


def sweep(folder: Path) -> list[str]:
    """Remove what is of a run from its cluster, while the cluster is there.

    Called when all workers have ended and one of them without its clean-up.

    Args:
        folder: the run's folder.

    Returns:
        What could not be removed, one line each, with the command that removes it.
    """
    from pytest_gpucluster import provider
    from pytest_gpucluster.kube import connection, errors
    from pytest_gpucluster.plain import names
    from pytest_gpucluster.report import record
    from pytest_gpucluster.scenario import sweep as sweep_run

    hint = f"remove it with: gpucluster cleanup {folder}"
    try:
        report = record.fold(folder / record.JOURNAL)
    except record.RecordError:
        return []  # no worker had begun the run
    cluster = provider.attach(folder)
    if cluster is None:
        if not report["scenarios"]:
            return []  # no cluster was had
        return [f"objects of a dead worker remain on the cluster: its address is no longer known; {hint}"]
    lent = report["profile"]["values"].get("namespace")
    try:
        opened = connection.Connection.open(cluster.kubeconfig, cluster.context)
        swept = sweep_run(opened, run_id=names.safe_name(folder.name), namespace=lent)
    except errors.GpuClusterError as error:
        return [f"objects of a dead worker remain on the cluster: {' '.join(str(error).split())}; {hint}"]
    return [f"{item}; {hint}" for item in swept.failed]
