"""What interpreters import before their program so that they start and end sooner; see `node.images`."""
