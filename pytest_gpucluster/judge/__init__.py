"""Judges: pure functions of (evidence, given) that return a finding. No I/O, no clock, no pytest."""
