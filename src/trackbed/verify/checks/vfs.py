"""Step vfs: MAC addresses are unique on a rail. Wanted by IEEE 802; a leaf learns a MAC at one port only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.verify.catalogue import judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.plan.plan import PortPlan
    from trackbed.verify.finding import Finding
    from trackbed.verify.view import View


def check(view: View) -> Iterator[Finding]:
    """Compare each port's MAC with the same rail of all other nodes; nothing to say where none were collected."""
    if view.peers is None:
        return
    for port in view.ports():
        link = view.link(port)
        if link is None:
            continue
        others = [peer.node.name for peer in view.peers if _mac(peer, port.rail) == link.mac]
        evidence = f"{link.mac} is also at {', '.join(others)}" if others else ""
        yield judged("vfs-mac-duplicate", view.node, port, ok=not others, evidence=evidence)


def _mac(view: View, rail: int) -> str | None:
    port: PortPlan | None = view.node.port(rail)
    link = view.link(port) if port and rail not in view.away else None
    return link.mac if link else None
