"""The payload image: built, named, or from an archive."""

import io
import json
import pathlib
import tarfile

import pytest

from pytest_gpucluster.provider import ProviderError
from pytest_gpucluster.provider.kind import archives, engine, payload


def archive(path: pathlib.Path, members: dict[str, object]) -> pathlib.Path:
    """Write an archive with JSON members."""
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            data = json.dumps(content).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


DOCKER = {"manifest.json": [{"RepoTags": ["team/payload:3"], "Layers": []}]}
OCI = {
    "index.json": {"manifests": [{"annotations": {"org.opencontainers.image.ref.name": "team/payload:4"}}]}
}


@pytest.mark.parametrize(("members", "image"), [(DOCKER, "team/payload:3"), (OCI, "team/payload:4")])
def test_an_archive_names_its_image(programs, tmp_path, members, image):
    """Docker's archives and OCI's; no engine is asked."""
    path = archive(tmp_path / "p.tar", members)
    made = payload.prepare(engine.find(), str(path), tmp_path / "log")
    assert (made.image, made.archive) == (image, path)
    assert programs.calls("docker") == []
    assert payload.as_archive(engine.find(), made, tmp_path, tmp_path / "log") == path


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"manifest.json": [{"RepoTags": None}]}, "names no image"),
        ({"index.json": {"manifests": [{}]}}, "names no image"),
        ({"other": 1}, "names no image"),
        ({"index.json": []}, "cannot be read"),
    ],
)
def test_an_archive_without_a_name_is_refused(tmp_path, members, told):
    """One line with the file."""
    path = archive(tmp_path / "p.tar", members)
    with pytest.raises(ProviderError, match=told):
        archives.images(path)


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    """One line with the file."""
    path = tmp_path / "p.tar"
    path.write_text("not a tar")
    with pytest.raises(ProviderError, match=r"p\.tar cannot be read"):
        archives.images(path)


def test_an_image_that_the_engine_lacks_is_pulled(programs, tmp_path):
    """And one that it still lacks is told."""
    with pytest.raises(ProviderError, match="No such image"):
        payload.prepare(engine.find(), "registry/payload:1", tmp_path / "log")
    assert programs.calls("docker", "pull") == [["docker", "pull", "registry/payload:1"]]


@pytest.mark.parametrize("image", ["payload", "payload:latest", "host:5000/payload"])
def test_a_tag_with_which_kubelets_pull_is_refused(programs, tmp_path, image):
    """Kubelets ask a registry for `latest` every time."""
    with pytest.raises(ProviderError, match="give it a tag other than latest"):
        payload.prepare(engine.find(), image, tmp_path / "log")


def test_the_image_is_built_once_for_its_content(programs, tmp_path):
    """The tag is the digest of the folder it is built from."""
    first = payload.prepare(engine.find(), None, tmp_path / "log")
    second = payload.prepare(engine.find(), None, tmp_path / "log")
    assert first == second
    (built,) = programs.calls("docker", "build")
    assert built[2:] == ["--tag", first.image, str(payload.folder())]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "Dockerfile").write_text("FROM x\n")
    before = payload.digest(tmp_path / "a")
    (tmp_path / "a" / "Dockerfile").write_text("FROM y\n")
    assert payload.digest(tmp_path / "a") != before
