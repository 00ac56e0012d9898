"""Judges of how jobs begin again and end."""
