"""Where the pod runs: on nodes that have the rails, and on some stacks in the host's own network."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import Mapping, look, mapping
from trackbed.cluster.stacks.access import Access


def place(spec: Mapping, access: Access, selector: tuple[tuple[str, str], ...]) -> Iterator[Note]:
    """Add the node labels, and the host's network where the stack uses it."""
    for label, value in selector:
        held = look(spec, "nodeSelector").get(label)
        if held is None:
            mapping(spec, "nodeSelector")[label] = value
            breaks = "the pod may land on a node without these rails"
            yield Note("missing", "pod-node-selector", f"node label {label}: {value}", breaks, "spec.nodeSelector")
        elif str(held) != value:
            what = f"node label {label} is {held!r}, the plan has {value!r}"
            yield Note("different", "pod-node-selector", what, "the pod runs on another fabric", "spec.nodeSelector")
    yield from _host_network(spec) if access.host_network else _pod_network(spec, access)


def _host_network(spec: Mapping) -> Iterator[Note]:
    if spec.get("hostNetwork") is False:
        what = "hostNetwork is false, this stack needs true"
        yield Note("different", "pod-host-network", what, "the pod sees no rail", "spec.hostNetwork")
        return
    if spec.get("hostNetwork") is None:
        spec["hostNetwork"] = True
        yield Note("missing", "pod-host-network", "hostNetwork: true", "the pod sees no rail", "spec.hostNetwork")
    policy = spec.get("dnsPolicy")
    breaks = "the pod does not resolve the names of services, so ranks do not find each other"
    if policy is None:
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
        yield Note("missing", "pod-dns-policy", "dnsPolicy: ClusterFirstWithHostNet", breaks, "spec.dnsPolicy")
    elif policy != "ClusterFirstWithHostNet":
        what = f"dnsPolicy is {policy}, with hostNetwork it should be ClusterFirstWithHostNet"
        yield Note("different", "pod-dns-policy", what, breaks, "spec.dnsPolicy")


def _pod_network(spec: Mapping, access: Access) -> Iterator[Note]:
    if spec.get("hostNetwork") is True and (access.networks or access.claims):
        breaks = "networks and claims have no effect on a pod in the host's network"
        yield Note("extra", "pod-host-network-with-annotation", "hostNetwork: true", breaks, "spec.hostNetwork")
