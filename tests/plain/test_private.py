"""Files and folders that others may not read, whatever the umask is."""

import os
import stat

import pytest

from pytest_gpucluster.plain import private


def mode(path):
    """Return the permissions of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request):
    """Set a umask until the end of the test."""
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_new_files_and_folders_are_private(tmp_path):
    """Also one that was there before, and could be read."""
    folder = private.folder(tmp_path / "a" / "b")
    private.write(folder / "c", "x\ud800")
    with private.opened(folder / "c", "a") as file:
        file.write("y")
    (folder / "old").write_text("old")
    (folder / "old").chmod(0o644)
    private.write(folder / "old", "new")
    assert [mode(folder), mode(folder / "c"), mode(folder / "old")] == [0o700, 0o600, 0o600]
    assert (folder / "c").read_text() == "x\\ud800y"
    assert (folder / "old").read_text() == "new"


@pytest.mark.usefixtures("umask")
def test_a_folder_is_shut_with_all_in_it(tmp_path):
    """Links are not followed, and what may be run stays so."""
    outside = tmp_path / "outside"
    outside.write_text("x")
    outside.chmod(0o644)
    root = tmp_path / "root"
    (root / "in").mkdir(parents=True)
    (root / "in" / "run").write_text("x")
    (root / "in" / "run").chmod(0o755)
    (root / "link").symlink_to(outside)
    private.shut(root)
    assert [mode(root), mode(root / "in"), mode(root / "in" / "run")] == [0o700, 0o700, 0o700]
    assert mode(outside) == 0o644


def test_a_pipe_is_left_alone(tmp_path):
    """Somebody may save to /dev/stdout."""
    private.write(tmp_path / "x", "")
    with private.opened(type(tmp_path)("/dev/null"), "w") as file:
        file.write("x")
    assert stat.S_ISCHR(type(tmp_path)("/dev/null").stat().st_mode)
