"""Marking and pacing of RDMA packets: DCQCN, CNPs, the traffic class of queue pairs, rdma_cm, and the next boot."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding, format_value
from trackbed.doctor.finding import Finding
from trackbed.doctor.rdma_devices import HARDWARE_DEVICES, list_rdma_devices
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.kinds.file import BOOT_SCRIPT as SCRIPT
from trackbed.host.kinds.file import BOOT_WANTED as WANTED
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.steps.qos import compute_traffic_class

_ECN = "/sys/class/net/{netdev}/ecn"
_CC = "/sys/kernel/debug/mlx5/{pci}/cc_params"
_CLASS = "/tc/1/traffic_class"
_COUNTERS = "/ports/1/hw_counters"
_COUNTER_NAMES = ("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored")
_NOTIFICATION = ("qos-ecn-notification-off", "roce_np", "np_ecn_marked_roce_packets", "np_cnp_sent")
_REACTION = ("qos-ecn-reaction-off", "roce_rp", "rp_cnp_ignored", "rp_cnp_handled")
"""(fault id, folder of the settings, counter of causes, counter of responses)."""
_CM = "/sys/kernel/config/rdma_cm/{device}/ports/1"
_UNITS = ("/etc/systemd/system/*.service", "/etc/udev/rules.d/*.rules")
_QOS_COMMAND = re.compile(r"mlnx_qos|cma_roce_tos|\bdcb (?:app|pfc|ets)\b")
"""A command in a systemd unit or udev rule that sets QoS."""

READS = Wanted(
    files=(
        *(f"{_ECN}/{side}/enable/*" for side in ("roce_np", "roce_rp")),
        *(f"{_ECN}/roce_np/{name}" for name in ("cnp_dscp", "cnp_802p_prio")),
        *(f"{_CC}/np_cnp_{name}" for name in ("dscp", "prio")),
        *(f"{HARDWARE_DEVICES}/*{_COUNTERS}/{name}" for name in _COUNTER_NAMES),
        f"{HARDWARE_DEVICES}/*{_CLASS}",
        *(f"{_CM.format(device='*')}/default_roce_{name}" for name in ("tos", "mode")),
        *_UNITS,
        SCRIPT,
        WANTED,
    )
)


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the files of each port's driver, and that the next boot restores the settings."""
    for port in view.iter_ports():
        yield from check_ecn(view, host, port)
        yield from check_cnp_marking(view, host, port)
        yield from check_traffic_class(view, host, port)
        yield from check_rdma_cm(view, host, port)
    yield from check_persistence(view, host)


def check_ecn(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """Check that DCQCN is on, in NVIDIA's driver or, without its settings, by counters: marks must get a response."""
    qos = view.node.common.qos
    if not qos.ecn:
        return
    counts = {name: _sum_counter(host, port, name) for name in _COUNTER_NAMES}
    for fault_id, side, cause, response in (_NOTIFICATION, _REACTION):
        switch = host.read_number(f"{_ECN.format(netdev=port.netdev)}/{side}/enable/{qos.priority}")
        causes, responses = counts[cause], counts[response]
        if switch is not None:
            evidence = f"ecn/{side}/enable/{qos.priority} is {switch}"
            yield build_finding(fault_id, view.node, port, ok=switch == 1, evidence=evidence)
        elif causes is not None and responses is not None:
            evidence = f"{cause} {causes}, {response} {responses}"
            yield build_finding(fault_id, view.node, port, ok=not causes or responses > 0, evidence=evidence)


def _sum_counter(host: Snapshot, port: PortPlan, name: str) -> int | None:
    """Return a counter summed over the port's RDMA devices; None if no device has it."""
    counts = [host.read_number(f"{device.folder}{_COUNTERS}/{name}") for device in list_rdma_devices(host, port.netdev)]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def check_cnp_marking(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """Check the DSCP and priority of congestion notification packets (CNPs)."""
    qos, base = view.node.common.qos, f"{_ECN.format(netdev=port.netdev)}/roce_np"
    cc = _CC.format(pci=port.pci or host.find_pci(port.netdev))
    dscp = _select_known_number(host.read_number(f"{base}/cnp_dscp"), host.read_number(f"{cc}/np_cnp_dscp"))
    priority = _select_known_number(host.read_number(f"{base}/cnp_802p_prio"), host.read_number(f"{cc}/np_cnp_prio"))
    if qos.ecn and dscp is not None:
        ok = dscp == qos.cnp_dscp and priority in {None, qos.cnp_dscp >> 3}
        evidence = (
            f"CNPs have DSCP {dscp}, priority {format_value(priority)}; planned {qos.cnp_dscp}, {qos.cnp_dscp >> 3}"
        )
        yield build_finding("qos-cnp-dscp-wrong", view.node, port, ok=ok, evidence=evidence)


def _select_known_number(first: int | None, second: int | None) -> int | None:
    """Return the first of the two numbers that is known; None if neither is."""
    return second if first is None else first


def check_traffic_class(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """Check that each RDMA device forces the planned traffic class on its queue pairs."""
    planned = compute_traffic_class(view.node)
    for text in _read_traffic_classes(host, port):
        match = re.search(r"\d{1,9}", text)
        actual = int(match[0]) if match else None
        evidence = f"traffic_class of {port.netdev}: {'not forced' if actual is None else actual}, planned {planned}"
        yield build_finding("qos-traffic-class-not-forced", view.node, port, ok=actual == planned, evidence=evidence)


def check_rdma_cm(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """Check the ToS and RoCE mode of rdma_cm for the port's devices.

    Its configfs shows a device only after `mkdir` of the device's name; other devices are skipped.
    """
    planned = compute_traffic_class(view.node)
    for device in list_rdma_devices(host, port.netdev):
        base = _CM.format(device=device.name)
        tos, mode = host.read_number(f"{base}/default_roce_tos"), host.read_text(f"{base}/default_roce_mode")
        if tos is not None:
            evidence = f"rdma_cm gives {device.name} the class {tos}, planned {planned}"
            yield build_finding("qos-rdma-cm-tos-wrong", view.node, port, ok=tos == planned, evidence=evidence)
        if mode is not None:
            evidence = f"rdma_cm uses {mode} for {device.name}"
            yield build_finding("qos-rdma-cm-roce-v1", view.node, port, ok=mode == "RoCE v2", evidence=evidence)


def check_persistence(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that QoS is set at boot, if a port has settings that a reboot loses (DCB, NVIDIA's driver)."""
    if not any(port.netdev in view.dcb or _read_traffic_classes(host, port) for port in view.iter_ports()):
        return
    ours = [SCRIPT] if host.exists(SCRIPT) and host.exists(WANTED) else []
    others = [path for path in host.glob(*_UNITS) if _QOS_COMMAND.search(host.read_text(path) or "")]
    setters = [*ours, *others]
    evidence = f"set at boot by {', '.join(setters)}" if setters else "no unit and no udev rule here sets QoS"
    yield build_finding("qos-not-persistent", view.node, None, ok=bool(setters), evidence=evidence)


def _read_traffic_classes(host: Snapshot, port: PortPlan) -> list[str]:
    """Return the content of `traffic_class` for each of the port's RDMA devices that have this file."""
    texts = [host.read_text(device.folder + _CLASS) for device in list_rdma_devices(host, port.netdev)]
    return [text for text in texts if text is not None]
