"""What the NIC's flash says: VFs, link layer, ATS, the BlueField's mode, and values that wait for a reset.

Two sources: what the kernel shows of it in sysfs and devlink, and mlxconfig (or mstconfig), which only NVIDIA's NICs
answer, and only where somebody installed it. Where it is missing sysfs alone is judged.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from trackbed.doctor.catalogue import judge
from trackbed.doctor.hardware import DEVICES, NVIDIA_NIC, is_virtual, iter_functions, list_accelerators, read_attribute
from trackbed.host.kinds.firmware import Value, parse
from trackbed.host.setting import Firmware
from trackbed.host.snapshot import pci as registers
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.host.steps import firmware as planned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.setting import Parameter
    from trackbed.host.snapshot.snapshot import Snapshot

_TOOLS = ("mlxconfig", "mstconfig")
_DEVLINK = ("devlink", "-j", "dev", "param", "show")
READS = Wanted(
    files=(
        f"{DEVICES}/{{pci}}/sriov_totalvfs",
        f"{DEVICES}/{{pci}}/config",
        f"{DEVICES}/{{pci}}/net/*/type",
        f"{DEVICES}/{{pci}}/infiniband/*/ports/1/link_layer",
    ),
    commands=(*((tool, "-d", "{pci}", "-e", "q") for tool in _TOOLS), _DEVLINK),
)

_ARPHRD = {"1": "ethernet", "32": "infiniband"}
"""`type` of an interface (include/uapi/linux/if_arp.h)."""
_BLUEFIELD = {"0xa2d2", "0xa2d6", "0xa2dc", "0xa2df"}
"""Device ids of the integrated controllers of BlueField 1 to 4 (pci.ids)."""
_OFFLOAD = "INTERNAL_CPU_OFFLOAD_ENGINE"
"""0: the embedded CPU owns the ports (DPU mode). 1: the host does (NIC mode)."""


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Judge each port's flash."""
    for port, pci in iter_functions(view, host):
        have = read_flash(host, pci)
        yield from _sriov(view, host, port, pci)
        yield from _link_layer(view, host, port, pci)
        yield from _pending(view, port, have, _wanted(view, host, port, pci))
        yield from _bluefield(view, host, port, pci)
        yield from _ats(view, host, port, pci)
        yield from _roce(view, host, port, pci)


def read_flash(host: Snapshot, pci: str) -> Mapping[str, Value]:
    """Parameters of the NIC's flash; empty where no tool told."""
    said = next((text for tool in _TOOLS if (text := host.said(tool, "-d", pci, "-e", "q"))), "")
    return parse(said)


def list_unmet_settings(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> list[str]:
    """What must be set in the NIC for the plan, as `NAME=VALUE`."""
    have, wanted = read_flash(host, pci), _wanted(view, host, port, pci)
    wrong = [one for one in wanted if one.name in have and not _good(one, have[one.name].next)]
    if not have and (host.number(f"{DEVICES}/{pci}/sriov_totalvfs") or 0) < view.node.common.vfs:
        wrong = [one for one in wanted if one.name in {"SRIOV_EN", "NUM_OF_VFS"}]
    return [f"{one.name}={one.value}" for one in wrong]


def _wanted(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> tuple[Parameter, ...]:
    """What the plan wants of this NIC's flash, also where the Fabric does not say whose NIC it is."""
    if read_attribute(host, pci, "vendor") != NVIDIA_NIC:
        return ()
    node = msgspec.structs.replace(view.node, nic="15b3:", ports=(msgspec.structs.replace(port, pci=pci),))
    wants = [setting.want for setting in planned.settings(node)]
    return tuple(one for want in wants if isinstance(want, Firmware) for one in want.parameters)


def _good(want: Parameter, have: str) -> bool:
    enough = want.at_least and have.isdigit() and int(have) >= int(want.value)
    return have == want.value or enough


def _sriov(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Of no interest where the plan takes no VFs."""
    count, path = view.node.common.vfs, f"{DEVICES}/{pci}/sriov_totalvfs"
    if not count:
        return
    total, enabled = host.number(path), read_flash(host, pci).get("SRIOV_EN", Value("1", "1"))
    on = bool(total) and enabled.now != "0"
    evidence = f"{path}: {'absent' if total is None else total}"
    evidence += ", SRIOV_EN is 0" if enabled.now == "0" else ""
    yield judge("fw-sriov-disabled", view.node, port, ok=on, evidence=evidence)
    if total:
        evidence = f"{path}: {total}, planned {count}"
        yield judge("fw-num-of-vfs-too-small", view.node, port, ok=total >= count, evidence=evidence)


def _link_layer(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    layers = {
        text.lower(): path
        for path in host.glob(f"{DEVICES}/{pci}/infiniband/*/ports/1/link_layer")
        if (text := host.text(path))
    }
    types = {
        _ARPHRD.get(text, f"type {text}"): path
        for path in host.glob(f"{DEVICES}/{pci}/net/*/type")
        if (text := host.text(path))
    }
    found = {**types, **layers}
    if found:
        evidence = "; ".join(f"{path}: {what}" for what, path in found.items())
        ok = set(found) == {view.node.common.link_type}
        yield judge("fw-link-type-wrong", view.node, port, ok=ok, evidence=evidence)


def _pending(
    view: NodeView, port: PortPlan, have: Mapping[str, Value], wanted: tuple[Parameter, ...]
) -> Iterator[Finding]:
    """Values that the flash has and the NIC does not use yet; what the flash lacks is for `trackbed apply` to tell."""
    asked = {one.name: have[one.name] for one in wanted if one.name in have and have[one.name].now is not None}
    if asked:
        late = [
            f"{name} is {value.now}, after a reset {value.next}"
            for name, value in asked.items()
            if value.now != value.next
        ]
        yield judge("fw-config-pending", view.node, port, ok=not late, evidence=", ".join(late))


def _bluefield(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    value = read_flash(host, pci).get(_OFFLOAD)
    if value is not None and read_attribute(host, pci, "device") in _BLUEFIELD:
        now = value.now or value.next
        yield judge("fw-bluefield-dpu-mode", view.node, port, ok=now == "1", evidence=f"{_OFFLOAD} is {now}")


def _ats(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Only in a virtual machine that has GPUs: on bare metal the IOMMU is passed by, and ATS has nothing to do."""
    config = host.content(f"{DEVICES}/{pci}/config")
    ours = read_attribute(host, pci, "vendor") == NVIDIA_NIC and is_virtual(host) and list_accelerators(host)
    if not ours or not isinstance(config, bytes) or not registers.readable(config):
        return
    on = registers.ats(config)
    evidence = f"{pci}: {'no ATS capability' if on is None else 'ATSCtl Enable' + ('+' if on else '-')}"
    yield judge("fw-ats-off-in-vm", view.node, port, ok=bool(on), evidence=evidence)


def _roce(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Judged where the driver has the parameter, and on Ethernet: InfiniBand needs no RoCE."""
    values = _parameter(host, pci, "enable_roce")
    if values and view.node.common.link_type == "ethernet":
        on = values.get("driverinit", values.get("runtime"))
        yield judge("fw-roce-disabled-by-devlink", view.node, port, ok=on is not False, evidence=f"enable_roce is {on}")


def _parameter(host: Snapshot, pci: str, name: str) -> dict[str, object]:
    """Configuration mode -> value of a devlink parameter (devlink-dev(8), -j)."""
    try:
        told = json.loads(host.said(*_DEVLINK) or "{}")
        parameters = told.get("param", {}).get(f"pci/{pci}", ())
        return {one["cmode"]: one.get("value") for p in parameters if p["name"] == name for one in p["values"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
