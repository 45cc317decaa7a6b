"""Step cni: what the agent refused, and what the kernel forgot when an interface changed its namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView, PodView

WANTED = {"rp_filter": ("0", "2"), "arp_ignore": ("1", "2"), "arp_announce": ("2",)}
"""Values that are as planned or stricter without harm, by sysctl of the interface."""


def check(view: NodeView) -> Iterator[Finding]:
    """Judge refused attaches and the sysctls of attached rails."""
    doubled = [r for r in view.refusals if r.code == "interface-exists"]
    evidence = "; ".join(f"{r.pod}: {r.message}" for r in doubled)
    yield judge("cni-interface-exists", view.node, None, ok=not doubled, evidence=evidence)
    for pod in view.pods:
        for rail, (name, _) in pod.rails.items():
            port = view.node.port(rail)
            wrong = _reset(pod, name)
            shown = f"pod {pod.name}: {', '.join(wrong)}" if wrong else f"pod {pod.name}"
            yield judge("cni-interface-sysctls-reset", view.node, port, ok=not wrong, evidence=shown)


def _reset(pod: PodView, name: str) -> list[str]:
    found = []
    for key, good in WANTED.items():
        value = pod.sysctls.get(f"net/ipv4/conf/{name}/{key}")
        if value is not None and value not in good:
            found.append(f"{name}/{key}={value}")
    return found
