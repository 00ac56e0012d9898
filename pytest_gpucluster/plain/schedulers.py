"""Names of the schedulers that a gang can be written for: what a profile may declare."""

VOLCANO = "volcano"
NATIVE = "native"
"""Gangs of Kubernetes itself: PodGroups of scheduling.k8s.io, placed by kube-scheduler."""
KUEUE = "kueue"
"""Jobs behind a queue of Kueue, admitted by quota, placed by kube-scheduler."""
DEFAULT = "default-scheduler"
"""kube-scheduler without any gang: pods are placed one at a time."""

NAMES = (VOLCANO, NATIVE, KUEUE, DEFAULT)
GANG = (VOLCANO, NATIVE, KUEUE)
"""Those that promise something about gangs."""

POD_NAMES = {VOLCANO: "volcano", NATIVE: DEFAULT, KUEUE: DEFAULT, DEFAULT: DEFAULT}
"""Declared scheduler -> schedulerName of its pods."""
