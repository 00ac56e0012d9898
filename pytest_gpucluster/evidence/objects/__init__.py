"""What objects show: pods, containers, nodes, owners."""
