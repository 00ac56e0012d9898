"""Judges of what job plugins give to pods."""
