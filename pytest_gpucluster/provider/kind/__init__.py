"""A real cluster whose nodes are containers: kind, with what a GPU cluster has and this machine lacks."""
