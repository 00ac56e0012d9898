"""Judges of worlds that shrink and grow."""
