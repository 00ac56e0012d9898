"""Judges of figures of speed."""
