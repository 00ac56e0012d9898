"""Who asks, and whether they may: bearer tokens, request attributes, RBAC."""
