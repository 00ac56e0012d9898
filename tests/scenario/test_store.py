"""The run's store: each scenario runs once, whoever asks and whoever dies."""

import multiprocessing
import os
import signal
import threading

import pytest

from pytest_gpucluster.scenario import slice as slices
from pytest_gpucluster.scenario import store


def made(name="one"):
    """Return a slice of one note."""
    return slices.Slice({"scenario": name, "clock": "receipt"}, (), ('{"type":"NOTE","t":1.0,"note":"end"}',))


def test_second_who_asks_loads(tmp_path):
    """The first runs the scenario, the second reads the file."""
    runs = []

    def make():
        runs.append(1)
        return made()

    kept = store.RunStore(tmp_path / "Run_1")
    assert kept.run_id == "run-1"
    assert not kept.has("one")
    first, second = (
        kept.evidence_for("one", make),
        store.RunStore(tmp_path / "Run_1").evidence_for("one", make),
    )
    assert runs == [1]
    assert [line.data for line in first] == [line.data for line in second] == [{"note": "end"}]


def test_threads_that_ask_together_run_it_once(tmp_path):
    """Those who ask while it runs wait for it."""
    kept, runs, begun = store.RunStore(tmp_path), [], threading.Barrier(4)

    def ask():
        begun.wait(10)
        kept.evidence_for("one", lambda: runs.append(1) or made())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert runs == [1]


def test_failed_run_leaves_no_file(tmp_path):
    """What the run raises reaches the one who asked; the next who asks runs it again."""
    kept = store.RunStore(tmp_path)

    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.evidence_for("one", fail)
    assert not kept.has("one")
    assert kept.evidence_for("one", made).header["scenario"] == "one"


def _hold(folder, ready):
    def make():
        (folder / "evidence" / "one.99.tmp").write_text("half")
        ready.set()
        signal.pause()
        return made()

    store.RunStore(folder).evidence_for("one", make)


def test_killed_holder_does_not_block_the_next(tmp_path):
    """A worker that was killed while it ran a scenario holds no lock, and its half file is no evidence."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, ready))
    holder.start()
    assert ready.wait(30)
    os.kill(holder.pid, signal.SIGKILL)
    holder.join(10)
    holder.close()
    assert store.RunStore(tmp_path).evidence_for("one", made).header["scenario"] == "one"


def beside(folder, first, second):
    """Report whether a second scenario begins while a first one holds its turn."""
    kept, begun = store.RunStore(folder), threading.Event()

    def play():
        with kept.turn(**second):
            begun.set()

    other = threading.Thread(target=play)
    with kept.turn(**first):
        other.start()
        together = begun.wait(0.3)
    assert begun.wait(30)
    other.join(30)
    return together


ALONE, GPUS, SLOTS = (
    {"alone": True, "gpus": False}, {"alone": False, "gpus": True}, {"alone": False, "gpus": False},
)  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (ALONE, SLOTS, False),
        (SLOTS, ALONE, False),
        (ALONE, ALONE, False),
        (GPUS, GPUS, False),
        (ALONE, GPUS, False),
        (GPUS, ALONE, False),
        (SLOTS, SLOTS, True),
        (SLOTS, GPUS, True),
        (GPUS, SLOTS, True),
    ],
)
def test_a_scenario_runs_beside_those_that_it_cannot_disturb(tmp_path, first, second, together):
    """Slots beside slots and beside GPUs; GPUs take turns; one that disturbs others is alone."""
    assert beside(tmp_path, first, second) is together
