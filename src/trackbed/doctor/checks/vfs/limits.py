"""What a port holds its virtual functions to: link, MTU, VLAN, trust, rates (ip-link(8), IFLA_VF_*)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.vfs.functions import iter_vfs, summarize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import Common, PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot
    from trackbed.kernel.netlink.vfs import Vf


def check(view: NodeView) -> Iterator[Finding]:
    """Judge each port that has VFs; a driver that tells nothing of them leaves nothing to say."""
    host = view.host
    if host is None or not view.node.common.vfs:
        return
    for port in view.iter_ports():
        told = view.vfs.get(port.netdev)
        if told and told.vfs:
            yield from _held(view, port, told.vfs)
        yield from _mtu(view, host, port)


def _held(view: NodeView, port: PortPlan, vfs: tuple[Vf, ...]) -> Iterator[Finding]:
    common = view.node.common
    wanted = {"enable"} if common.link_type == "infiniband" else {"auto", "enable"}
    states = [f"VF {vf.index}: {vf.link_state}" for vf in vfs if vf.link_state not in wanted]
    yield _said(view, port, "vfs-link-state-disabled", states)
    vlans = [f"VF {vf.index}: VLAN {vf.vlan}" for vf in vfs if vf.vlan]
    yield _said(view, port, "vfs-vlan-not-planned", vlans)
    yield _said(view, port, "vfs-spoofcheck-or-trust", [text for vf in vfs if (text := _trusted(vf, common))])
    capped = [f"VF {vf.index}: at most {vf.max_tx_rate} Mbit/s" for vf in vfs if vf.max_tx_rate]
    yield _said(view, port, "vfs-rate-limited", capped)


def _trusted(vf: Vf, common: Common) -> str:
    """What differs from the plan; a setting that the driver does not know is left out."""
    wanted = (("trust", vf.trust, common.vf_trust), ("spoof checking", vf.spoof_check, common.vf_spoof_check))
    wrong = [f"{what} {'on' if have else 'off'}" for what, have, want in wanted if have is not None and have != want]
    return f"VF {vf.index}: {', '.join(wrong)}" if wrong else ""


def _said(view: NodeView, port: PortPlan, fault: str, wrong: list[str]) -> Finding:
    return judge(fault, view.node, port, ok=not wrong, evidence=summarize(wrong))


def _mtu(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    link, planned = view.find_link(port), view.node.common.vf_mtu_bytes
    seen = [
        (name, mtu)
        for vf in iter_vfs(host, port.netdev)
        for name in vf.netdevs
        if (mtu := host.number(f"{vf.folder}/net/{name}/mtu")) is not None
    ]
    if not seen or link is None:
        return
    above = [f"{name}: {mtu}, {port.netdev}: {link.mtu}" for name, mtu in seen if mtu > link.mtu]
    yield _said(view, port, "vfs-mtu-above-pf", above)
    other = [f"{name}: {mtu}, planned {planned}" for name, mtu in seen if mtu != planned]
    yield _said(view, port, "vfs-mtu-not-planned", other)
