"""Large YAML files of test data, read by libyaml: a tenth of the time, in every worker."""

from pathlib import Path
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as Loader
except ImportError:  # PyYAML was built without it
    from yaml import SafeLoader as Loader  # type: ignore[assignment]


def read(path: Path) -> Any:
    """Return the document of a file."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)
