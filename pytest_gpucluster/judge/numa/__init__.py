"""Judges of NUMA alignment."""
