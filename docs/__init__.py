"""The documentation and what generates its reference pages."""
