"""A Kubernetes on one machine with GPUs and no network: control plane and nodes in namespaces of their own."""
