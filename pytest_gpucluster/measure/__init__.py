"""Pure arithmetic and reading: what figures and logs say, without a cluster."""
