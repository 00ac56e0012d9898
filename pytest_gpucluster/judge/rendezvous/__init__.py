"""Judges of how ranks find each other."""
