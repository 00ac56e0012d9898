"""Plugins: the job plugins wire the ranks."""
