"""Judges of checkpoints: saved in parts, loaded elsewhere, beside training, after a kill, fast enough, flushed."""
