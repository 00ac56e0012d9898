"""Tests of the judges of elastic jobs."""
