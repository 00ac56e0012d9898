"""Tests of the embedded Volcano."""
