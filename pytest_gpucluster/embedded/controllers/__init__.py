"""The controllers of Kubernetes itself: namespaces, garbage collection, batch Jobs."""
