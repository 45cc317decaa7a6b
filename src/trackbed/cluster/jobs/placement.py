"""Placement of a pod: on nodes that have the rails, and on some stacks in the host's network namespace."""

from collections.abc import Iterator

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import Mapping, ensure_mapping, read_mapping
from trackbed.cluster.stacks.access import Access

HOST_NETWORK_CONFLICT = Note(
    "extra",
    "host-network-with-networks",
    "hostNetwork: true",
    "the pod uses its node's network: networks, devices and variables of this stack have no effect or are wrong there; "
    "remove hostNetwork and its dnsPolicy, or leave the job without rails of its own",
    "spec.hostNetwork",
)
"""A pod in the host's network namespace, on a stack that gives pods their own interfaces."""


def set_placement(spec: Mapping, access: Access, node_labels: tuple[tuple[str, str], ...]) -> Iterator[Note]:
    """Add the node selector to a pod's spec, and hostNetwork if the stack uses it; yield notes."""
    for label, value in node_labels:
        current = read_mapping(spec, "nodeSelector").get(label)
        if current is None:
            ensure_mapping(spec, "nodeSelector")[label] = value
            yield Note(
                "missing",
                "pod-node-selector",
                f"node label {label}: {value}",
                "the pod may land on a node without these rails",
                "spec.nodeSelector",
            )
        elif str(current) != value:
            yield Note(
                "different",
                "pod-node-selector",
                f"node label {label} is {current!r}, the plan has {value!r}",
                "the pod runs on another fabric",
                "spec.nodeSelector",
            )
    yield from _set_host_network(spec) if access.host_network else ()


def _set_host_network(spec: Mapping) -> Iterator[Note]:
    if spec.get("hostNetwork") is False:
        yield Note(
            "different",
            "pod-host-network",
            "hostNetwork is false, this stack needs true",
            "the pod sees no rail",
            "spec.hostNetwork",
        )
        return
    if spec.get("hostNetwork") is None:
        spec["hostNetwork"] = True
        yield Note("missing", "pod-host-network", "hostNetwork: true", "the pod sees no rail", "spec.hostNetwork")
    policy = spec.get("dnsPolicy")
    breaks = "the pod does not resolve the names of services, so ranks do not find each other"
    if policy is None:
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
        yield Note("missing", "host-network-dns", "dnsPolicy: ClusterFirstWithHostNet", breaks, "spec.dnsPolicy")
    elif policy != "ClusterFirstWithHostNet":
        yield Note(
            "different",
            "host-network-dns",
            f"dnsPolicy is {policy}, with hostNetwork it should be ClusterFirstWithHostNet",
            breaks,
            "spec.dnsPolicy",
        )
