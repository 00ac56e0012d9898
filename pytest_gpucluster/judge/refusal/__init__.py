"""Judges of refusals: who refused, for what, and whom it harmed."""
