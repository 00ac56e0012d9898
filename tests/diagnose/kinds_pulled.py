"""More words of registries, kubelets and device plugins, each with its own cause."""

from tests.diagnose.kinds_said import _waits
from tests.diagnose.kinds_started import Row, _rejected
from tests.diagnose.planting import GPU

UNEXPECTED = "Allocate failed due to {0}, which is unexpected"

KINDS: dict[str, Row] = {
    "a tag that does not exist": (
        _waits("ErrImagePull", "rpc error: code = NotFound desc = failed to pull and unpack image: reg.example/t:1: "
               "not found"),
        "trouble", "image", ["does not have it"], ["pull secret", "certificate"],
    ),
    "no credentials": (
        _waits("ErrImagePull", "failed to authorize: failed to fetch anonymous token: unexpected status: 401 "
               "Unauthorized"),
        "trouble", "image", ["imagePullSecrets"], ["correct the image's name"],
    ),
    "credentials that may not": (
        _waits("ErrImagePull", "unexpected status from HEAD request: 403 Forbidden"),
        "trouble", "image", ["imagePullSecrets"], ["certificate"],
    ),
    "a registry without a name": (
        _waits("ErrImagePull", "dial tcp: lookup reg.example on 10.0.0.2:53: no such host"),
        "trouble", "image", ["DNS"], ["pull secret"],
    ),
    "a registry that is down": (
        _waits("ErrImagePull", "unexpected status code 503 Service Unavailable"),
        "trouble", "image", ["does not answer"], ["pull secret"],
    ),
    "a proxy that is gone": (
        _waits("ErrImagePull", "proxyconnect tcp: dial tcp 10.9.9.9:3128: connect: connection refused"),
        "trouble", "image", ["proxy"], ["pull secret"],
    ),
    "a registry without TLS": (
        _waits("ErrImagePull", "http: server gave HTTP response to HTTPS client"),
        "trouble", "image", ["another protocol"], ["pull secret"],
    ),
    "a name that is none": (
        _waits("InvalidImageName", 'couldn\'t parse image reference "Reg.example/T": invalid reference format'),
        "trouble", "image", ["not valid", "lower case"], ["pull secret"],
    ),
    "never pulled": (
        _waits("ErrImageNeverPull", 'Container image "reg.example/t:1" is not present with pull policy of Never'),
        "trouble", "image", ["IfNotPresent"], ["pull secret"],
    ),
    "a signature": (
        _waits("SignatureValidationFailed", "Source image rejected: A signature was required, but no signature exists"),
        "trouble", "image", ["signature"], ["pull secret"],
    ),
    "a pull in words that nobody knows": (
        _waits("ErrImagePull", "the flux budget was spent"),
        "trouble", "image", ["flux budget", "one of"], [],
    ),
    "an unhealthy device": (
        _rejected("UnexpectedAdmissionError", UNEXPECTED.format("no healthy devices present; cannot allocate unhealthy "
                                                                f"devices {GPU}")),
        "trouble", "kubelet-rejects", ["no healthy device"], ["two schedulers"],
    ),
    "fewer devices than counted": (
        _rejected("UnexpectedAdmissionError", UNEXPECTED.format(f"requested number of devices unavailable for {GPU}. "
                                                                "Requested: 8, Available: 4")),
        "trouble", "kubelet-rejects", ["two schedulers", "restarted", "lost", "to tell which"], ["lost."],
    ),
    "a plugin that does not answer": (
        _rejected("UnexpectedAdmissionError", UNEXPECTED.format("rpc error: code = Unavailable desc = "
                                                                "connection error")),
        "trouble", "kubelet-rejects", ["does not answer its kubelet"], ["lost"],
    ),
    "whole CPUs that are not there": (
        _rejected("UnexpectedAdmissionError", UNEXPECTED.format("not enough cpus available to satisfy request: "
                                                                "requested=48, available=40")),
        "trouble", "kubelet-rejects", ["CPUs"], ["nvidia", "GPU"],
    ),
    "a node that goes down refuses": (
        _rejected("NodeShutdown", "Pod was rejected as the node is shutting down."),
        "trouble", "kubelet-rejects", ["shut down"], ["ran short"],
    ),
    "a taint": (
        _rejected("TaintToleration", "Pod was rejected: Predicate TaintToleration failed: node(s) had taints"),
        "trouble", "kubelet-rejects", ["taint"], ["ran short"],
    ),
    "a deadline": (
        _rejected("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"),
        "trouble", "kubelet-rejects", ["activeDeadlineSeconds"], [],
    ),
    "another processor's pod": (
        _rejected("PodOSNotSupported", "Failed to admit pod as the OS field does not match node OS"),
        "trouble", "kubelet-rejects", ["does not match node OS"], ["ran short"],
    ),
    "a reason of a later version": (
        _rejected("FluxNotReady", "the flux capacitor is discharged"),
        "trouble", "kubelet-rejects", ["FluxNotReady", "flux capacitor"], ["ran short", "NUMA"],
    ),
    "a reason without a message": (
        _rejected("FluxNotReady", ""),
        "trouble", "kubelet-rejects", ["FluxNotReady", "kubelet's log"], ["ran short"],
    ),
}  # fmt: skip
"""Kind -> how it is planted, state, code of the first cause, what must be named, what must not."""
