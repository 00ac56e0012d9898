"""The GPUs deliver."""
