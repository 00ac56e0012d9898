"""Defaults and validation of the built-in kinds, as the API server applies them."""
