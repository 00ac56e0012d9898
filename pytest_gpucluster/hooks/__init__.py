"""Hooks of pytest, one subject per module; `pytest_gpucluster.plugin` gathers them."""
