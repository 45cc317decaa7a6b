"""Each fault of step bios, put into a sound server, is what doctor names first; the sound server has none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.doctor.host.sound_metal import (
    ABOVE,
    AER,
    BUSES,
    CPUINFO,
    DEVICES,
    DMESG,
    GPU,
    GPUS,
    IOMEM,
    NIC,
    RESOURCE,
    Change,
    append_log,
    build_bridge_config,
    build_metal,
    build_metal_view,
    combine,
    find_first_fault,
    list_findings,
    list_verdicts,
    replace_file,
    replace_folder,
    replace_output,
)
from trackbed.doctor.diagnosis import diagnose_nodes
from trackbed.fabric.plan.plan import KernelPlan

PCI, ABOVE_BUS = f"{DEVICES}/{NIC}", f"{BUSES}/0000:58/device"
EMPTY_VF_BARS = "\n".join([*RESOURCE.splitlines()[:7], *["0x0000000000000000 " * 2 + "0x0000000000000000"] * 6])
LOCKED = "none [integrity] confidentiality\n"
"""Secure Boot of Ubuntu and Red Hat (Documentation/admin-guide/LSM, lockdown)."""


def hide_devices(*names: str) -> Change:
    return lambda host: replace_folder(DEVICES, tuple(name for name in host.folders[DEVICES] if name not in names))(
        host
    )


def remove_device(pci: str) -> Change:
    """Remove a function from the bus, with all its files."""
    files = [replace_file(path, None) for path in build_metal().files if path.startswith(f"{DEVICES}/{pci}/")]
    return combine(hide_devices(pci), *files)


FAULTS: list[tuple[str, str, Change]] = [
    ("bios-port-pci-absent", "nothing at the address", remove_device(NIC)),
    ("bios-gpu-missing", "one fewer on the bus", remove_device(GPU)),
    ("bios-gpu-missing", "the driver lacks one", replace_folder("/proc/driver/nvidia/gpus", GPUS[:1])),
    (
        "bios-gpu-missing",
        "fallen off the bus",
        append_log(f"NVRM: Xid (PCI:{GPU[:-2]}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
    ),
    ("bios-iommu-table-missing", "VT-d is off", replace_folder("/sys/firmware/acpi/tables", ("APIC", "DSDT", "FACP"))),
    (
        "bios-above-4g-off",
        "the kernel has no room",
        combine(
            replace_file("/proc/iomem", "00000000-00000000 : PCI Bus 0000:15\n"),
            append_log(f"pci {GPU}: BAR 2 [mem size 0x2000000000 64bit pref]: failed to assign"),
        ),
    ),
    (
        "bios-above-4g-off",
        "an older kernel has no room",
        combine(
            replace_file("/proc/iomem", "00000000-00000000 : PCI Bus 0000:15\n"),
            append_log(f"pci {GPU}: BAR 2: failed to assign [mem size 0x2000000000 64bit pref]"),
        ),
    ),
    (
        "bios-above-4g-off",
        "a GPU's bus has low memory only",
        replace_file("/proc/iomem", IOMEM.replace("250000000000-25ffffffffff : PCI Bus 0000:55\n", "")),
    ),
    ("bios-vf-bars-unassigned", "no memory", replace_file(f"{PCI}/resource", EMPTY_VF_BARS)),
    (
        "bios-slot-power-insufficient",
        "too few watts",
        append_log(f"mlx5_core {NIC}: port_module:252: Port module event: module 0, powered down due to insufficient"),
    ),
    ("bios-pcie-width-reduced", "half the lanes", replace_file(f"{PCI}/current_link_width", "8\n")),
    ("bios-pcie-speed-reduced", "one generation less", replace_file(f"{PCI}/current_link_speed", "16.0 GT/s PCIe\n")),
    (
        "bios-pcie-errors",
        "not corrected",
        replace_file(f"{PCI}/aer_dev_nonfatal", AER.format(kind="NONFATAL", count=1)),
    ),
    (
        "bios-pcie-errors",
        "corrected too often",
        replace_file(f"{PCI}/aer_dev_correctable", AER.format(kind="COR", count=9000)),
    ),
    ("bios-pcie-errors", "above", replace_file(f"{ABOVE_BUS}/aer_dev_fatal", AER.format(kind="FATAL", count=2))),
    ("bios-numa-node-unknown", "no domain", replace_file(f"{PCI}/numa_node", "-1\n")),
    (
        "bios-nic-not-beside-gpu",
        "the GPUs are swapped",
        combine(
            *(replace_file(f"{DEVICES}/{gpu}/{name}", None) for gpu in GPUS for name in ("vendor", "class")),
            *(replace_file(f"{DEVICES}/{pci}/vendor", "0x10de\n") for pci in ("0000:18:00.1", "0000:18:00.2")),
            *(replace_file(f"{DEVICES}/{pci}/class", "0x030200\n") for pci in ("0000:18:00.1", "0000:18:00.2")),
            lambda host: replace_folder(DEVICES, (*host.folders[DEVICES], "0000:18:00.1", "0000:18:00.2"))(host),
            replace_folder("/proc/driver/nvidia/gpus", ("0000:18:00.1", "0000:18:00.2")),
        ),
    ),
    ("bios-acs-redirect-on", "above the NIC", replace_file(f"{ABOVE_BUS}/config", build_bridge_config(0x1D))),
    (
        "bios-acs-redirect-on",
        "above the GPU",
        replace_file(f"{BUSES}/0000:59/device/config", build_bridge_config(0x04)),
    ),
    (
        "bios-cpu-governor-powersave",
        "one CPU",
        replace_file("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n"),
    ),
]


@pytest.mark.parametrize(("fault_id", "change"), [pytest.param(f, c, id=f"{f}: {why}") for f, why, c in FAULTS])
def test_a_fault_is_named_first(fault_id: str, change: Change) -> None:
    broken = change(build_metal())
    assert find_first_fault(broken) == fault_id
    worst = [
        finding for finding in list_findings(broken) if finding.id == fault_id and finding.verdict in {"warn", "fail"}
    ]
    assert worst[0].rail in {None, 1}
    assert worst[0].evidence
    assert "<" not in worst[0].fix


def test_lockdown_counts_where_the_nic_is_to_be_set() -> None:
    broken = combine(
        replace_file("/sys/kernel/security/lockdown", LOCKED), replace_file(f"{PCI}/sriov_totalvfs", "4\n")
    )(build_metal())
    (lockdown,) = [finding for finding in list_findings(broken) if finding.id == "bios-lockdown-blocks-firmware-tools"]
    assert lockdown.verdict == "warn"
    assert "NUM_OF_VFS=8" in lockdown.evidence


def test_a_sound_server_passes_every_check() -> None:
    findings = list_findings(build_metal(), "bios")
    assert {finding.verdict for finding in findings} == {"pass"}
    assert len({finding.id for finding in findings}) == 14


def test_the_bridge_above_is_named_with_its_register() -> None:
    broken = replace_file(f"{ABOVE_BUS}/config", build_bridge_config(0x1D))(build_metal())
    evidence = [f.evidence for f in list_findings(broken) if f.id == "bios-acs-redirect-on" and f.verdict == "fail"]
    assert evidence == [f"{ABOVE} ACSCtl 0x001d"]


@pytest.mark.parametrize(
    ("acs", "iommu", "verdicts"),
    [
        pytest.param("disabled", True, {"pass", "fail"}, id="turned off by plan"),
        pytest.param("leave", False, {"pass", "fail"}, id="VFs in containers"),
        pytest.param("leave", True, set(), id="VFs in virtual machines"),
        pytest.param("enabled", False, set(), id="turned on by plan"),
    ],
)
def test_acs_is_a_fault_only_where_the_plan_needs_no_isolation(acs: str, *, iommu: bool, verdicts: set[str]) -> None:
    broken = replace_file(f"{ABOVE_BUS}/config", build_bridge_config(0x1D))(build_metal())
    view = build_metal_view(broken)
    common = view.node.common._replace(acs=acs, kernel=KernelPlan(iommu))
    findings = diagnose_nodes([replace(view, node=view.node._replace(common=common))]).findings
    assert {finding.verdict for finding in findings if finding.id == "bios-acs-redirect-on"} == verdicts


@pytest.mark.parametrize(
    ("fault_id", "change"),
    [
        pytest.param(
            "bios-acs-redirect-on",
            combine(*(replace_file(p, c[:64]) for p, c in build_metal().files.items() if p.endswith("/config"))),
            id="config space of who is not root",
        ),
        pytest.param("bios-port-pci-absent", replace_folder(DEVICES, None), id="no sysfs"),
        pytest.param(
            "bios-iommu-table-missing", replace_folder("/sys/firmware/acpi/tables", None), id="no ACPI folder"
        ),
        pytest.param(
            "bios-above-4g-off",
            combine(
                replace_file("/proc/iomem", "00000000-00000000 : PCI Bus 0000:15\n"),
                replace_output(("dmesg",), "denied", 1),
            ),
            id="neither log nor addresses",
        ),
    ],
)
def test_what_cannot_be_read_is_unknown(fault_id: str, change: Change) -> None:
    assert list_verdicts(change(build_metal()), fault_id) == {"unknown"}


@pytest.mark.parametrize(
    ("fault_id", "change"),
    [
        pytest.param(
            "bios-acs-redirect-on",
            replace_file("/proc/cpuinfo", CPUINFO.replace("pdpe1gb", "pdpe1gb hypervisor")),
            id="in a virtual machine ACS stays on",
        ),
        pytest.param(
            "bios-numa-node-unknown", replace_file("/sys/devices/system/node/online", "0\n"), id="one NUMA node"
        ),
        pytest.param(
            "bios-iommu-table-missing",
            replace_file("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\n"),
            id="Arm has other tables",
        ),
        pytest.param("bios-gpu-missing", combine(*map(remove_device, GPUS)), id="a host without GPUs"),
        pytest.param(
            "bios-cpu-governor-powersave",
            combine(*(replace_file(path, None) for path in build_metal().files if path.endswith("scaling_governor"))),
            id="no frequency scaling",
        ),
    ],
)
def test_a_check_says_nothing_where_it_has_no_meaning(fault_id: str, change: Change) -> None:
    assert list_verdicts(change(build_metal()), fault_id) == set()


@pytest.mark.parametrize(
    ("fault_id", "change"),
    [
        pytest.param(
            "bios-pcie-width-reduced", replace_file(f"{ABOVE_BUS}/max_link_width", "8\n"), id="unplanned narrow slot"
        ),
        pytest.param(
            "bios-pcie-speed-reduced", replace_file(f"{PCI}/max_link_speed", "Unknown\n"), id="the NIC does not say"
        ),
        pytest.param(
            "bios-lockdown-blocks-firmware-tools",
            replace_file("/sys/kernel/security/lockdown", LOCKED),
            id="locked, and nothing to set",
        ),
        pytest.param(
            "bios-slot-power-insufficient",
            append_log(f"mlx5_core {NIC}: mlx5_pcie_event:301: Detected insufficient power on the PCIe slot (27W)."),
            id="few watts, and a link",
        ),
        pytest.param(
            "bios-slot-power-insufficient",
            append_log(
                f"mlx5_core {NIC}: powered down due to insufficient\n"
                f"[    9.0] mlx5_core {NIC}: mlx5_pcie_event:306: PCIe slot advertised sufficient power (75W).",
            ),
            id="too few watts, and enough later",
        ),
        pytest.param(
            "bios-above-4g-off",
            append_log("pci_bus 0000:55: Some PCI device resources are unassigned, try booting with pci=realloc"),
            id="a bridge without I/O ports",
        ),
        pytest.param(
            "bios-above-4g-off",
            replace_output(("dmesg",), DMESG.replace("[    0.000000]", "[ 9000.000000]")),
            id="a log that begins late",
        ),
    ],
)
def test_what_is_no_fault_passes(fault_id: str, change: Change) -> None:
    assert list_verdicts(change(build_metal()), fault_id) == {"pass"}


def test_a_late_log_says_since_when_it_is_silent() -> None:
    late = replace_output(("dmesg",), f"[ 9000.000000] mlx5_core {NIC}: link up\n")(build_metal())
    evidence = [f.evidence for f in list_findings(late) if f.id == "bios-slot-power-insufficient"]
    assert evidence[0] == "nothing logged since 9000 s after boot"
