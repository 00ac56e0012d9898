"""The embedded Kueue against recordings of the real one."""
