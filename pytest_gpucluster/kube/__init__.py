"""The driver of the Kubernetes API: connection, verbs, watch, clock, errors. Usable from a script.

The official client loads kubeconfigs, authenticates and carries the requests; paths come from a small table of kinds
(`kinds.TABLE`), so that connecting costs no discovery, and objects stay plain dicts, so that an answer which a typed
model would reject is still evidence.
"""
