"""The HTTP API: discovery, verbs, watch, patch types, sub-resources."""
