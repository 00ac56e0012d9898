"""Judges of jobs under further schedulers."""
