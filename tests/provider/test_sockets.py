"""Folders for sockets are short, whatever TMPDIR is."""

import os
import tempfile
from pathlib import Path

import pytest

from pytest_gpucluster.provider import sockets
from pytest_gpucluster.provider.protocol import ProviderError


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a folder for temporary files that is far too long for a socket."""
    long = tmp_path / ("long" * 20)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return long


def test_a_long_tmpdir_is_passed_over(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one that is short enough is taken, and cleaned like the first."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(sockets, "SHORT", (short,))
        folder = sockets.new_folder(os.getpid())
        assert folder.parent == Path(short)
        assert len(os.fsencode(folder / "nodes" / "kubelet.sock")) <= sockets.LIMIT
        (folder / sockets.OWNER).write_text("1 1\n", encoding="utf-8")
        sockets.remove_orphans()
        assert not folder.exists()
    assert list(temporary.iterdir()) == []


def test_a_short_tmpdir_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sets TMPDIR means it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        assert sockets.new_folder(os.getpid()).parent == Path(short)


@pytest.mark.usefixtures("temporary")
def test_no_folder_at_all_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what was tried and what to set."""
    monkeypatch.setattr(sockets, "SHORT", ("/nowhere",))
    with pytest.raises(ProviderError, match=r"no folder for sockets: .*/nowhere .* set TMPDIR"):
        sockets.new_folder(os.getpid())
