"""What interpreters in containers of faulty nodes import before their program; see `node.faults`."""
