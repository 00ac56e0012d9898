"""The log: its lines, how they are read and written, and whether they can be relied on."""
