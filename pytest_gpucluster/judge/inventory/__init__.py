"""Judges of what is installed and offered: components, nodes, queues, versions, configuration."""
