"""A small control plane in a process of its own: store, API server, admission, schedulers, controllers."""
