"""Judges of what containers reach of their node."""
