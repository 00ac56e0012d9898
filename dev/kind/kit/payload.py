"""The image of payloads: Python and the libraries of torch's wheel; torch itself is mounted, being too large."""

from pathlib import Path

from . import archive, places, root
from .cache import Part

IMAGE = "pytest-gpucluster/payload:local"


def make(folder: Path) -> None:
    """Write the archive."""
    archive.write(folder / "payload.tar", root.PAYLOAD.made() / "root", [archive.Image([IMAGE])])


PAYLOAD = Part(
    "payload",
    make,
    sources=[places.HERE / "kit" / each for each in ("payload.py", "archive.py")],
    uses=[root.PAYLOAD],
)
