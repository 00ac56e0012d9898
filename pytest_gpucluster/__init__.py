"""Conformance tests for GPU training clusters, decided on recorded evidence."""
