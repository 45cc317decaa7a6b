"""Settings of a port for its virtual functions: link, MTU, VLAN, trust, rates (ip-link(8), IFLA_VF_*)."""

from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks.vfs.functions import iter_vfs
from trackbed.doctor.evidence import summarize_items
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import CommonPlan, PortPlan
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.kernel.netlink.vfs import Vf


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check each port whose driver reports VFs."""
    if not view.node.common.vfs:
        return
    for port in view.iter_ports():
        listing = view.vfs.get(port.netdev)
        if listing and listing.vfs:
            yield from check_vf_settings(view, port, listing.vfs)
        yield from check_mtus(view, host, port)


def check_vf_settings(view: NodeView, port: PortPlan, vfs: tuple[Vf, ...]) -> Iterator[Finding]:
    """Check link state, VLAN, trust, spoof checking and rate of the VFs."""
    common = view.node.common
    states = [f"VF {vf.index}: {vf.link_state}" for vf in vfs if vf.link_state not in {"auto", "enable"}]
    yield _build_vf_finding(view, port, "vfs-link-state-disabled", states)
    vlans = [f"VF {vf.index}: VLAN {vf.vlan}" for vf in vfs if vf.vlan]
    yield _build_vf_finding(view, port, "vfs-vlan-not-planned", vlans)
    if common.link_type == "ethernet":  # InfiniBand has neither
        trust = [problem for vf in vfs if (problem := _describe_trust(vf, common))]
        yield _build_vf_finding(view, port, "vfs-spoofcheck-or-trust", trust)
    limited = [f"VF {vf.index}: at most {vf.max_tx_rate} Mbit/s" for vf in vfs if vf.max_tx_rate]
    yield _build_vf_finding(view, port, "vfs-rate-limited", limited)


def _describe_trust(vf: Vf, common: CommonPlan) -> str:
    """Describe the trust settings that differ from the plan; empty if none does. Unreported settings are ignored."""
    settings = (("trust", vf.trust, common.vf_trust), ("spoof checking", vf.spoof_check, common.vf_spoof_check))
    wrong = [
        f"{name} {'on' if actual else 'off'}"
        for name, actual, planned in settings
        if actual is not None and actual != planned
    ]
    return f"VF {vf.index}: {', '.join(wrong)}" if wrong else ""


def _build_vf_finding(view: NodeView, port: PortPlan, fault_id: str, problems: list[str]) -> Finding:
    return build_finding(fault_id, view.node, port, ok=not problems, evidence=summarize_items(problems))


def check_mtus(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """Check the MTUs of the VFs' interfaces against the port's MTU and against the plan."""
    link, planned = view.find_link(port), view.node.common.vf_mtu_bytes
    mtus = [
        (name, mtu)
        for vf in iter_vfs(host, port.netdev)
        for name in vf.netdevs
        if (mtu := host.read_number(f"{vf.folder}/net/{name}/mtu")) is not None
    ]
    if not mtus or link is None:
        return
    above = [f"{name}: {mtu}, {port.netdev}: {link.mtu}" for name, mtu in mtus if mtu > link.mtu]
    yield _build_vf_finding(view, port, "vfs-mtu-above-pf", above)
    unplanned = [f"{name}: {mtu}, planned {planned}" for name, mtu in mtus if mtu != planned]
    yield _build_vf_finding(view, port, "vfs-mtu-not-planned", unplanned)
