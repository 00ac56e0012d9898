"""Traffic goes over the declared fabric."""
