"""Nodes whose pods are real processes: sandbox, agent, network, DNS, devices, topology.

A client of any Kubernetes API server. Start it with `python -m pytest_gpucluster.node`.
"""
