"""The JSON Schema of a profile file, made from the model."""

import json
from typing import Any

from pytest_gpucluster.profile.defaults import BUILT_IN, DEFAULTS
from pytest_gpucluster.profile.load import REQUIRED
from pytest_gpucluster.profile.model import Profile


def file_schema() -> dict[str, Any]:
    """Return the schema of `NAME.yaml`: five keys required unless the cluster is made, the rest with its default."""
    schema = Profile.model_json_schema()
    properties = schema["properties"]
    # The file's name is the profile's name.
    del properties["name"]
    properties["provider"]["default"] = "existing"
    for key, value in DEFAULTS.items():
        properties[key]["default"] = value
    properties["connection"] = {
        "$ref": "#/$defs/Connection",
        "description": properties["connection"]["description"],
    }
    made = {"properties": {"provider": {"enum": sorted(BUILT_IN)}}, "required": ["provider"]}
    del schema["required"]
    schema["if"], schema["else"] = made, {"required": list(REQUIRED)}
    schema["title"] = "Profile of pytest-gpucluster"
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return schema


def schema_text() -> str:
    """Return the schema as it is kept in `fixtures/profiles/profile.schema.json`."""
    return json.dumps(file_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")  # noqa: T201 - the module run as a program prints the schema
