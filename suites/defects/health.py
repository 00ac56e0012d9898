"""Defects of the isolation of devices."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {"node.devices-leak": {"HLT-004": "fail"}}
