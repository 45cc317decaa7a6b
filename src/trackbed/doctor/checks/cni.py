"""Step cni: attachments that the agent refused, and sysctls that moving an interface into a pod has reset."""

from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView, PodView, describe_unread_pod

ACCEPTED_VALUES = {"rp_filter": ("0", "2"), "arp_ignore": ("1", "2"), "arp_announce": ("2",)}
"""Sysctl of an interface -> values that are as planned, or stricter without harm."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check for attachments refused because of a name conflict, and for sysctls of attached rails that were reset."""
    if view.refusals or view.pods:  # without either, no agent has said anything
        yield check_refusals(view)
    for pod in view.pods:
        if pod.unread:
            evidence = describe_unread_pod(pod)
            yield build_finding("cni-interface-sysctls-reset", view.node, None, ok=None, evidence=evidence)
            continue
        for rail, (netdev, *_) in pod.rails.items():
            port = view.node.find_port(rail)
            wrong = _list_wrong_sysctls(pod, netdev)
            evidence = f"pod {pod.name}: {', '.join(wrong)}" if wrong else f"pod {pod.name}"
            yield build_finding("cni-interface-sysctls-reset", view.node, port, ok=not wrong, evidence=evidence)


def check_refusals(view: NodeView) -> Finding:
    """Check that the agent refused no attachment because of a name conflict."""
    doubled = [refusal for refusal in view.refusals if refusal.code == "interface-exists"]
    evidence = "; ".join(f"{refusal.pod}: {refusal.message}" for refusal in doubled)
    return build_finding("cni-interface-exists", view.node, None, ok=not doubled, evidence=evidence)


def _list_wrong_sysctls(pod: PodView, netdev: str) -> list[str]:
    """Return the sysctls of a pod's interface that are not accepted, as `netdev/key=value`."""
    values = {key: pod.sysctls.get(f"net/ipv4/conf/{netdev}/{key}") for key in ACCEPTED_VALUES}
    return [f"{netdev}/{key}={value}" for key, value in values.items() if value not in {None, *ACCEPTED_VALUES[key]}]
