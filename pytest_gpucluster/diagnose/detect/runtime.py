"""What container runtimes and kubelets say of a container that they did not start."""

import re

from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import vendors

START_ERRORS = ("StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError")
"""Reasons by which kubelets say that a runtime did not start a container: it never ran, and has no log."""

TABLE: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"[Dd]river/library version mismatch|[Dd]river and library version"),
     "the GPU driver and its libraries on {node} do not match (the libraries were updated under a loaded driver)",
     "drain {node} and reboot it, or reload the driver's kernel modules; pin the driver's packages against updates"),
    (re.compile(r"unsatisfied condition: (?:cuda|driver|brand)\S*|please update your driver"),
     "the GPU driver of {node} is too old for the image",
     "use an image with an older CUDA, or update the driver of {node}"),
    (re.compile(r"nvml error: driver not loaded|driver is not loaded|NVIDIA driver .*not|libnvidia-ml\.so|"
                r"load library failed: libnvidia|custom device \"?/dev/(?:kfd|nvidia\w*)\"?: no such file"),
     "the GPU driver of {node} is not loaded, or the runtime does not find it",
     "look at the driver's pod or package on {node} ({check}), or drain it"),
    (re.compile(r"unresolvable CDI devices|failed to inject CDI|could not select device driver|CDI device"),
     "the runtime of {node} does not know the device that was allocated (CDI)",
     "check the CDI specifications (/var/run/cdi, /etc/cdi) and the container toolkit on {node}; restart its plugin"),
    (re.compile(r"reserve container name|is reserved for"),
     "an earlier try to create it still holds its name: the runtime of {node} is slow or hangs",
     ("look at the load and the disk of {node}, and at the log of its runtime (journalctl -u containerd); it "
      "goes on by "
     "itself if the earlier try ends")),
    (re.compile(r"no space left on device.*cgroup|cgroup.*no space left on device"),
     "{node} cannot make another cgroup: too many are left behind",
     "look at the number of cgroups on {node} (/proc/cgroups), and restart or drain it"),
    (re.compile(r"no space left on device"),
     "the disk of the runtime on {node} is full", "look at df -h and df -i on {node}; remove unused images"),
    (re.compile(r"exec format error"),
     "the image is built for another processor architecture than {node} has", "use an image for its architecture"),
    (re.compile(r"executable file not found|exec: .*(?:no such file or directory|permission denied)"),
     "the command is not in the image, or is not executable", "correct the command, or its mode in the image"),
    (re.compile(r"nvidia-container-cli|nvidia-container-runtime|prestart hook|GPU is lost|unknown device"),
     "the container runtime of {node} could not give the container its GPU",
     "look {check}, and at its container toolkit"),
    (re.compile(r"\bOOM-?killed\b|memory limit too low|\boom_kill|\boom-kill", re.IGNORECASE),
     "its memory limit is too small to start a process", "raise resources.limits.memory"),
    (re.compile(r"cgroup"),
     "the runtime of {node} cannot set up the container's cgroup",
     "compare the cgroup drivers of kubelet and runtime on {node}, and read the runtime's log"),
    (re.compile(r"\bmount(?:ing|ed)?\b|not a directory|bind source path|subPath"),
     "a mount of the container fails", "correct the volume or subPath that the message names"),
    (re.compile(r"seccomp|apparmor|selinux|operation not permitted", re.IGNORECASE),
     "the security profile of {node} or of the pod forbids it", "look at the security context and the node's profiles"),
    (re.compile(r"context deadline exceeded|DeadlineExceeded"),
     "the runtime of {node} took too long", "look at the load and the disk of {node}, and at its runtime's log"),
)  # fmt: skip
"""(what a container runtime says, what it means, what to do); {node}, {check}: how its devices are looked at."""

CONFIGURATION: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"couldn't find key (?P<key>\S+) in (?P<kind>\w+) (?P<name>\S+)"),
     "the key {key!r} that it needs is not in the {kind} {name}", "add the key, or correct its name in the template"),
    (re.compile(r"non-numeric user \((?P<user>[^)]*)\)"),
     "runAsNonRoot is asked for, and the image's user ({user}) has no number that could be checked",
     "set securityContext.runAsUser to that user's number"),
    (re.compile(r"runAsNonRoot"),
     "runAsNonRoot is asked for, and the image runs as root",
     "set securityContext.runAsUser to a number other than 0, or use an image that is not run as root"),
    (re.compile(r"failed to sync (?P<kind>secret|configmap) cache", re.IGNORECASE),
     "the kubelet of {node} has not read the {kind} yet", "wait: it tries again; else look at the kubelet of {node}"),
    (re.compile(r'object "(?P<name>[^"]+)"/"(?P<key>[^"]+)" not registered'),
     "the kubelet of {node} has not read {key} yet", "wait: it tries again; else look at the kubelet of {node}"),
    (re.compile(r"services have not yet been read"),
     "the kubelet of {node} has not read the Services yet", "wait: it tries again by itself"),
)  # fmt: skip
"""(what a kubelet says of a container's configuration, what it means, what to do)."""

SANDBOX: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r'no runtime for "(?P<name>[^"]+)"|RuntimeHandler "(?P<other>[^"]+)" not supported'),
     "the runtime of {node} has no handler {name} (runtimeClassName of the pod)",
     "set up that runtime on {node} (for GPUs its vendor's container toolkit), or leave runtimeClassName out"),
    (re.compile(r"no IP addresses? (?:are )?available|failed to allocate (?:for range|pod ip)|IPAM.*(?:full|exhausted)|"
                r"insufficient (?:IP|cidr)", re.IGNORECASE),
     "the pod network of {node} has no address left", ("give the network a larger range, or free leaked "
                                                       "addresses: look "
     "at its IPAM on {node} (/var/lib/cni/networks)")),
    (re.compile(r"cannot find a network-attachment-definition \((?P<name>[^)]*)\) in namespace \((?P<space>[^)]*)\)"),
     "there is no NetworkAttachmentDefinition {name} in namespace {space}",
     "create it there, or correct the annotation k8s.v1.cni.cncf.io/networks of the template"),
    (re.compile(r"cni plugin not initialized|network plugin is not ready|NetworkPluginNotReady"),
     "the network plugin of {node} is not ready", "look at the network plugin's pod on {node}"),
    (re.compile(r"Multi-Attach error"),
     "a volume is attached to another node: its access mode (ReadWriteOnce) allows only one",
     "end the pod that uses it, or use a volume that several nodes may mount (ReadWriteMany)"),
    (re.compile(r"(?:DRA driver|plugin) (?P<name>\S+) (?:is )?not (?:registered|found)|"
                r"driver name (?P<other>\S+) not found in the list of registered"),
     "the DRA driver {name} is not registered with the kubelet of {node}",
     "look at the DRA driver's pod on {node} (kubectl get pods -A -o wide --field-selector spec.nodeName={node})"),
    (re.compile(r"NodePrepareResources|[Pp]repare dynamic resources"),
     "the DRA driver on {node} could not prepare the pod's claim",
     "read the DRA driver's log on {node}, and kubectl describe the ResourceClaim"),
    (re.compile(r"timed out waiting for the condition|DeadlineExceeded|context deadline exceeded"),
     "{node} took too long: storage, network or runtime answer slowly",
     "read which one in the message; look at the driver's pod on {node}"),
)  # fmt: skip
"""(what a kubelet says of a pod's volumes, network and devices, what it means, what to do)."""


def says(pod: PodStory, message: str) -> tuple[str, str]:
    """Return (what a container runtime's message means, what to do)."""
    found = of(TABLE, pod, message)
    node = pod.node or "its node"
    return found or (
        "the container runtime could not start it",
        f"follow the message; look at the runtime's log on {node}",
    )


def of(
    table: tuple[tuple[re.Pattern[str], str, str], ...], pod: PodStory, message: str
) -> tuple[str, str] | None:
    """Return what a message means by a table, and what to do; None where the table does not know it."""
    node = pod.node or "its node"
    for pattern, text, fix in table:
        found = pattern.search(message)
        if found:
            told = {key: value or "" for key, value in found.groupdict().items()}
            told["name"] = told.get("name") or told.get("other", "")
            told |= {"node": node, "check": vendors.check(vendors.resource_of(pod.last), node, message)}
            return text.format(**told), fix.format(**told)
    return None
