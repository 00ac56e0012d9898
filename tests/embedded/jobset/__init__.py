"""Tests of the embedded JobSet."""
