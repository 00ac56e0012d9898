"""Rows of checkpoints and of what they are kept on."""
