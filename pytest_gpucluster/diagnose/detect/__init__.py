"""Detectors: each looks for one cause, in evidence that is already read."""
