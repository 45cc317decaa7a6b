"""Settings in the NIC's flash: VFs, link layer, ATS, the BlueField's mode, and values that take effect after a reset.

There are two sources: sysfs with devlink, and mlxconfig or mstconfig, which read NVIDIA's NICs only. If neither tool is
installed, the checks use sysfs and devlink alone.
"""

import json
import re
from collections.abc import Iterator, Mapping

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.hardware import (
    DEVICES,
    NVIDIA_NIC,
    is_virtual,
    iter_pci_functions,
    list_accelerators,
    read_pci_attribute,
)
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.kinds.firmware import Parameter, Value, Want, parse_values
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot import pci as registers
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.steps import firmware as planned

_NUMBER = re.compile(r"[0-9]{1,20}")
_TOOLS = ("mlxconfig", "mstconfig")
_DEVLINK = ("devlink", "-j", "dev", "param", "show")
READS = Wanted(
    files=(
        f"{DEVICES}/{{pci}}/config",
        f"{DEVICES}/{{pci}}/net/*/type",
        f"{DEVICES}/{{pci}}/infiniband/*/ports/1/link_layer",
    ),
    commands=(*((tool, "-d", "{pci}", "-e", "q") for tool in _TOOLS), _DEVLINK),
)

_ARPHRD = {"1": "ethernet", "32": "infiniband"}
"""`type` of an interface (include/uapi/linux/if_arp.h) -> link layer."""
_BLUEFIELD = {"0xa2d2", "0xa2d6", "0xa2dc", "0xa2df"}
"""Device ids of the integrated controllers of BlueField 1 to 4 (pci.ids)."""
_OFFLOAD = "INTERNAL_CPU_OFFLOAD_ENGINE"
"""Parameter of a BlueField: 0 if its own CPU owns the ports (DPU mode), 1 if the host does (NIC mode)."""


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the firmware settings of each port."""
    for port, pci in iter_pci_functions(view, host):
        yield from check_sriov(view, host, port, pci)
        yield from check_link_layer(view, host, port, pci)
        yield from check_bluefield(view, host, port, pci)
        yield from check_ats(view, host, port, pci)
        yield from check_roce(view, host, port, pci)
        values = read_flash_parameters(host, pci)
        yield from check_pending_reset(view, port, values, _list_planned_parameters(view, host, port, pci))


def read_flash_parameters(host: Snapshot, pci: str) -> Mapping[str, Value]:
    """Return the values of the parameters in the NIC's flash, by name; empty if no tool could read them.

    A tool that failed is asked only if no other has succeeded.
    """
    if read_pci_attribute(host, pci, "vendor") != NVIDIA_NIC:
        return {}
    commands = sorted(
        ((tool, "-d", pci, "-e", "q") for tool in _TOOLS), key=lambda argv: not _has_succeeded(host, argv)
    )
    outputs = (host.get_output(*argv) for argv in commands)
    return parse_values(next((output for output in outputs if output), ""))


def _has_succeeded(host: Snapshot, argv: tuple[str, ...]) -> bool:
    outcome = host.get_outcome(*argv)
    return isinstance(outcome, ProgramResult) and outcome.status == 0


def list_unmet_settings(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> list[str]:
    """Return the planned settings that the NIC's flash does not have, as `NAME=VALUE`."""
    values, parameters = read_flash_parameters(host, pci), _list_planned_parameters(view, host, port, pci)
    unmet = [
        parameter
        for parameter in parameters
        if parameter.name in values and not _is_parameter_met(parameter, values[parameter.name].next)
    ]
    if not values and (host.read_number(f"{DEVICES}/{pci}/sriov_totalvfs") or 0) < view.node.common.vfs:
        unmet = [parameter for parameter in parameters if parameter.name in {"SRIOV_EN", "NUM_OF_VFS"}]
    return [f"{parameter.name}={parameter.value}" for parameter in unmet]


def _list_planned_parameters(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> tuple[Parameter, ...]:
    """Return the flash parameters that an NVIDIA NIC needs, even if the plan has no vendor; empty for other NICs."""
    if read_pci_attribute(host, pci, "vendor") != NVIDIA_NIC:
        return ()
    node = view.node._replace(nic="15b3:", ports=(port._replace(pci=pci),))
    wants = [setting.want for setting in planned.iter_settings(node)]
    return tuple(parameter for want in wants if isinstance(want, Want) for parameter in want.parameters)


def _is_parameter_met(parameter: Parameter, flash_value: str) -> bool:
    """Return whether the value in flash is the planned one, or more where that is enough."""
    is_enough = (
        parameter.at_least and _NUMBER.fullmatch(flash_value) is not None and int(flash_value) >= int(parameter.value)
    )
    return flash_value == parameter.value or is_enough


def check_sriov(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Check that SR-IOV is on with enough VFs, if the plan has VFs."""
    planned_vfs, path = view.node.common.vfs, f"{DEVICES}/{pci}/sriov_totalvfs"
    if not planned_vfs:
        return
    total, enabled = host.read_number(path), read_flash_parameters(host, pci).get("SRIOV_EN", Value("1", "1"))
    ok = bool(total) and enabled.now != "0"
    evidence = f"{path}: {'absent' if total is None else total}"
    evidence += ", SRIOV_EN is 0" if enabled.now == "0" else ""
    yield build_finding("fw-sriov-disabled", view.node, port, ok=ok, evidence=evidence)
    if total:
        evidence = f"{path}: {total}, planned {planned_vfs}"
        yield build_finding("fw-num-of-vfs-too-small", view.node, port, ok=total >= planned_vfs, evidence=evidence)


def check_link_layer(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Check that the port is Ethernet or InfiniBand as planned."""
    layers = {
        text.lower(): path
        for path in host.glob(f"{DEVICES}/{pci}/infiniband/*/ports/1/link_layer")
        if (text := host.read_text(path))
    }
    types = {
        _ARPHRD.get(text, f"type {text}"): path
        for path in host.glob(f"{DEVICES}/{pci}/net/*/type")
        if (text := host.read_text(path))
    }
    sources = {**types, **layers}
    if sources:
        evidence = "; ".join(f"{path}: {link_type}" for link_type, path in sources.items())
        ok = set(sources) == {view.node.common.link_type}
        yield build_finding("fw-link-type-wrong", view.node, port, ok=ok, evidence=evidence)


def check_pending_reset(
    view: NodeView, port: PortPlan, values: Mapping[str, Value], parameters: tuple[Parameter, ...]
) -> Iterator[Finding]:
    """Check that no planned parameter is pending a reset; values that differ from the plan are left to `apply`."""
    known = {
        parameter.name: values[parameter.name]
        for parameter in parameters
        if parameter.name in values and values[parameter.name].now is not None
    }
    if known:
        pending = [
            f"{name} is {value.now}, after a reset {value.next}"
            for name, value in known.items()
            if value.now != value.next
        ]
        yield build_finding("fw-config-pending", view.node, port, ok=not pending, evidence=", ".join(pending))


def check_bluefield(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Check that a BlueField is in NIC mode."""
    value = read_flash_parameters(host, pci).get(_OFFLOAD)
    if value is not None and read_pci_attribute(host, pci, "device") in _BLUEFIELD:
        mode = value.now or value.next
        yield build_finding("fw-bluefield-dpu-mode", view.node, port, ok=mode == "1", evidence=f"{_OFFLOAD} is {mode}")


def check_ats(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Check that ATS is on in a virtual machine with GPUs; bare metal has its IOMMU in passthrough mode instead."""
    config = host.read_bytes(f"{DEVICES}/{pci}/config")
    needs_ats = read_pci_attribute(host, pci, "vendor") == NVIDIA_NIC and is_virtual(host) and list_accelerators(host)
    if not needs_ats or not isinstance(config, bytes) or not registers.is_readable(config):
        return
    is_on = registers.read_ats(config)
    evidence = f"{pci}: {'no ATS capability' if is_on is None else 'ATSCtl Enable' + ('+' if is_on else '-')}"
    yield build_finding("fw-ats-off-in-vm", view.node, port, ok=bool(is_on), evidence=evidence)


def check_roce(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Check that devlink has not disabled RoCE on an Ethernet port."""
    values = _read_devlink_parameter(host, pci, "enable_roce")
    if values and view.node.common.link_type == "ethernet":
        value = values.get("driverinit", values.get("runtime"))
        evidence = f"enable_roce is {str(value).lower()}"
        yield build_finding("fw-roce-disabled-by-devlink", view.node, port, ok=value is not False, evidence=evidence)


def _read_devlink_parameter(host: Snapshot, pci: str, name: str) -> dict[str, object]:
    """Return the values of a devlink parameter by configuration mode (devlink-dev(8), -j); empty if it is unknown."""
    try:
        document = json.loads(host.get_output(*_DEVLINK) or "{}")
        parameters = document.get("param", {}).get(f"pci/{pci}", ())
        return {
            value["cmode"]: value.get("value")
            for parameter in parameters
            if parameter["name"] == name
            for value in parameter["values"]
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
