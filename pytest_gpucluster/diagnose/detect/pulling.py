"""Why an image is not there, by what the registry and the runtime say."""

import re

REASONS = frozenset({
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
    "RegistryUnavailable", "SignatureValidationFailed",
})  # fmt: skip
"""Reasons by which a container waits for its image."""

TABLE: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"no match for platform|no matching manifest|image operating system .* cannot be used"),
     "it has no variant for the processor architecture of {node}",
     "build it for that architecture too, or choose nodes of the other (kubernetes.io/arch)"),
    (re.compile(r"toomanyrequests|Too Many Requests|\b429\b|rate limit", re.IGNORECASE),
     "the registry limits the rate of pulls", ("pull with credentials, over a mirror, or with imagePullPolicy "
                                              "IfNotPresent")),
    (re.compile(r"no space left on device|disk quota", re.IGNORECASE),
     "the disk of {node} is full", "look at df -h and df -i on {node}, and remove unused images"),
    (re.compile(r"x509|certificate|\bTLS\b|server gave HTTP response to HTTPS"),
     "{node} does not trust the registry's certificate, or the registry speaks another protocol",
     "give the nodes the registry's certificate authority (containerd: certs.d), or correct the registry's address"),
    (re.compile(r"signature|SignatureValidationFailed", re.IGNORECASE),
     "its signature is not accepted", "sign it with a key that the node's policy trusts"),
    (re.compile(r"pull policy of Never|ErrImageNeverPull"),
     "it is not on {node}, and imagePullPolicy Never forbids to pull it",
     "put the image on the node, or use imagePullPolicy IfNotPresent"),
    (re.compile(r"invalid reference format|InvalidImageName|couldn't parse image"),
     "its name is not valid", "correct the image's name: lower case, REGISTRY/NAME:TAG"),
    (re.compile(r"does not exist or may require|insufficient_scope|requested access to the resource is denied"),
     ("it does not exist under this name, or the pull secret does not give access to it (the registry says the same of "
     "both)"),
     "look for the name and tag in the registry; then give the template imagePullSecrets with access to it"),
    (re.compile(r"unauthorized|\bdenied\b|authentication required|authorization failed|forbidden|\b40[13]\b",
                re.IGNORECASE),
     "the registry does not let the node pull it: no pull secret, or one without access",
     "give the template imagePullSecrets with access to the registry"),
    (re.compile(r"manifest unknown|name unknown|not found|\b404\b|does not exist", re.IGNORECASE),
     "the registry does not have it", "correct the image's name, tag or digest: the registry does not have it"),
    (re.compile(r"timeout|timed out|no such host|connection (?:refused|reset)|i/o timeout|no route to host|\bEOF\b|"
                r"proxyconnect|\b50[0234]\b", re.IGNORECASE),
     "{node} does not reach the registry, or the registry does not answer",
     "the node cannot reach the registry: check its proxy and DNS, and the registry itself"),
)  # fmt: skip
"""(what is said of a pull, what it means, what to do)."""
LOOKED_UP = re.compile(r'(?:image|reference|ref) "[^"]*"|\S+@sha256:[0-9a-f]+|sha256:[0-9a-f]+')
"""Names of images in a message: their letters and digits say nothing of why."""


def why(message: str, image: str, node: str, look: str) -> tuple[str, str]:
    """Return (why an image cannot be pulled, what to do); several causes where nothing says which.

    Args:
        message: all that was said of the pull.
        image: its name.
        node: where it is pulled.
        look: the command that shows what the kubelet says.
    """
    said = LOOKED_UP.sub("", message.replace(image, "") if image else message)
    for pattern, text, fix in TABLE:
        if pattern.search(said):
            return text.format(node=node), fix.format(node=node)
    return (
        (
            "for one of these reasons: its name or tag is wrong, the pull secret is missing, or the node does "
            "not reach "
            "the registry"
        ),
        f"to tell which: {look} (the event Failed has the registry's answer)",
    )
