"""Promotion: a queue is opened behind a gate, closed again, and kept closed when nothing vouches for its cluster."""
