"""Modules that stand in for libraries of GPU drivers in containers whose GPUs are played."""
