"""Inventory: what the cluster says it has."""
