"""Step cni: attachments that the agent refused, and interface sysctls that were reset by a move into a pod."""

from collections.abc import Iterator

from trackbed.doctor.catalogue import judge
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView, PodView

ACCEPTED = {"rp_filter": ("0", "2"), "arp_ignore": ("1", "2"), "arp_announce": ("2",)}
"""Sysctl of an interface -> values that are as planned, or stricter without harm."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check for refused attachments and for reset sysctls of attached rails."""
    doubled = [refusal for refusal in view.refusals if refusal.code == "interface-exists"]
    evidence = "; ".join(f"{refusal.pod}: {refusal.message}" for refusal in doubled)
    yield judge("cni-interface-exists", view.node, None, ok=not doubled, evidence=evidence)
    for pod in view.pods:
        for rail, (netdev, _) in pod.rails.items():
            port = view.node.find_port(rail)
            wrong = _list_wrong_sysctls(pod, netdev)
            evidence = f"pod {pod.name}: {', '.join(wrong)}" if wrong else f"pod {pod.name}"
            yield judge("cni-interface-sysctls-reset", view.node, port, ok=not wrong, evidence=evidence)


def _list_wrong_sysctls(pod: PodView, netdev: str) -> list[str]:
    wrong = []
    for key, accepted in ACCEPTED.items():
        value = pod.sysctls.get(f"net/ipv4/conf/{netdev}/{key}")
        if value is not None and value not in accepted:
            wrong.append(f"{netdev}/{key}={value}")
    return wrong
