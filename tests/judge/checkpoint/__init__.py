"""Tests of the judges of checkpoints."""
