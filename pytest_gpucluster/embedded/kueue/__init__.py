"""Kueue v0.17.0 as recorded: admission, workloads of batch Jobs, quota, eviction. Quota only: no node is looked at."""
