"""Rows of worlds that shrink and grow."""
