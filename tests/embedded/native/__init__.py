"""Tests of native gangs on the embedded control plane."""
