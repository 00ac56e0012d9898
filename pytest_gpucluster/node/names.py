"""What a pod knows of names: its host name, /etc/hosts and /etc/resolv.conf."""

from typing import Any

Object = dict[str, Any]


def hostname(pod: Object) -> str:
    """Return the host name of a pod: `spec.hostname`, else its name, cut to 63 characters as a kubelet does."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63].rstrip("-.")


def full_name(pod: Object, domain: str) -> str | None:
    """Return the pod's name in DNS, which it has only with a subdomain."""
    subdomain = pod["spec"].get("subdomain")
    if not subdomain:
        return None
    return f"{hostname(pod)}.{subdomain}.{pod['metadata'].get('namespace', 'default')}.svc.{domain}"


def hosts_file(pod: Object, ip: str, domain: str, *, loopback: bool = False) -> str:
    """Return the pod's /etc/hosts.

    Args:
        pod: The pod.
        ip: Its address.
        domain: Domain of the cluster.
        loopback: Plant `node.hostname-loopback`: the own name stands beside 127.0.0.1.
    """
    own = " ".join(name for name in (full_name(pod, domain), hostname(pod)) if name).replace(" ", "\t")
    lines = [
        "# Kubernetes-managed hosts file.",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
        "fe00::\tip6-localnet",
        "fe00::\tip6-mcastprefix",
        "fe00::1\tip6-allnodes",
        "fe00::2\tip6-allrouters",
        f"{'127.0.0.1' if loopback else ip}\t{own}",
    ]
    aliases = pod["spec"].get("hostAliases") or []
    lines += [f"{alias['ip']}\t{' '.join(alias.get('hostnames') or [])}" for alias in aliases]
    return "\n".join(lines) + "\n"


def resolv_conf(pod: Object, nameserver: str, domain: str) -> str:
    """Return the pod's /etc/resolv.conf for the DNS policy ClusterFirst, with the additions of `dnsConfig`."""
    namespace = pod["metadata"].get("namespace", "default")
    extra = pod["spec"].get("dnsConfig") or {}
    own_only = pod["spec"].get("dnsPolicy") == "None"
    servers = [] if own_only else [nameserver]
    search = [] if own_only else [f"{namespace}.svc.{domain}", f"svc.{domain}", domain]
    options = {} if own_only else {"ndots": "5"}
    servers += extra.get("nameservers") or []
    search += extra.get("searches") or []
    options |= {str(entry["name"]): str(entry.get("value") or "") for entry in extra.get("options") or []}
    lines = [f"search {' '.join(search)}"] if search else []
    lines += [f"nameserver {server}" for server in servers]
    if options:
        lines.append("options " + " ".join(f"{k}:{v}" if v else k for k, v in options.items()))
    return "\n".join(lines) + "\n"
