"""Makes the parts of a Kubernetes for a machine with GPUs, and packs them into archives small enough to carry."""
