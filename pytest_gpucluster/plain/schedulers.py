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
PLACE_GANGS = (VOLCANO, NATIVE)
"""Those of them that place gangs by what nodes have room for."""

POD_NAMES = {VOLCANO: "volcano", NATIVE: DEFAULT, KUEUE: DEFAULT, DEFAULT: DEFAULT}
"""Declared scheduler -> schedulerName of its pods."""

ADMISSION, ENQUEUE, QUOTA, PLACEMENT = "admission", "enqueue", "quota", "placement"
"""Gates at which a gang may be held. admission: the API refuses its object; enqueue: no pod is made, since the queue or
the cluster has not enough; quota: its Job stays suspended; placement: all pods exist, and none is bound."""

CAPACITY = "capacity"
"""What is scarce where a gang waits for room on nodes; under Kueue it is quota (`QUOTA`)."""
