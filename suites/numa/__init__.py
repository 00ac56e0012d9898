"""How nodes align pods to NUMA nodes."""
