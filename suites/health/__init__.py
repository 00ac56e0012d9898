"""Devices are healthy and isolated."""
