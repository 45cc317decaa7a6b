"""A sound server of bare metal as a Snapshot: two rails, each with a GPU below the same PCIe switch.

    root bus 0000:15 -- root port 15:01.0 -- switch 16:00.0 -- 17:00.0 -- NIC 18:00.0 (rail0)
                                                            `- 17:01.0 -- GPU 19:00.0
    root bus 0000:55 the same on the other socket (rail1, NIC 58:00.0, GPU 59:00.0)

Files are written as the kernel writes them (Documentation/ABI/testing/sysfs-bus-pci, sysfs-bus-pci-devices-aer_stats;
the values as an emulated server with Linux 7.2 shows them, with a ConnectX-7's numbers).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.doctor.sound import build_sound_view
from trackbed.doctor.diagnosis import diagnose_nodes, select_finding_to_fix
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot

FABRIC = b"""
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: metal}
spec:
  nodes:
    - hosts: n[0-1]
      nic: "15b3:1021"
      ports: ["0000:18:00.0", "0000:58:00.0"]
  rails: 2
  nodesPerUnit: 1
  addressing: {scheme: point-to-point, ipv4: 10.0.0.0/15, ipv6: "fd00::/32"}
  vfs: {count: 8}
  bios: {acs: disabled}
  kernel: {iommu: passthrough, hugepages: [{size: 1G, count: 16}], isolatedCpus: 8-15, arguments: [pci=realloc]}
"""

DEVICES, BUSES = "/sys/bus/pci/devices", "/sys/class/pci_bus"
NICS = ("0000:18:00.0", "0000:58:00.0")
GPUS = ("0000:19:00.0", "0000:59:00.0")
NIC, GPU, ABOVE = NICS[1], GPUS[1], "0000:57:00.0"
"""The hardware of rail 1, which the tests break."""

CMDLINE = (
    "BOOT_IMAGE=/boot/vmlinuz-6.8.0-100-generic root=/dev/sda2 ro intel_iommu=on iommu=pt default_hugepagesz=1G "
    "hugepagesz=1G hugepages=16 isolcpus=8-15 nohz_full=8-15 rcu_nocbs=8-15 pci=realloc"
)
DMESG = """\
[    0.000000] Linux version 6.8.0-100-generic (buildd@lcy02) (x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0)) #100-Ubuntu SMP
[    0.000000] Command line: {cmdline}
[    4.100200] mlx5_core {nic}: firmware version: 28.39.1002
[    4.100250] mlx5_core {nic}: 252.048 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)
"""
RESOURCE = "".join(
    f"0x{start:016x} 0x{start + size - 1 if start else 0:016x} 0x{flags:016x}\n"
    for start, size, flags in (
        [(0x21FFFC000000, 0x2000000, 0x14220C)]
        + [(0, 0, 0)] * 5
        + [(0xAD000000, 0x100000, 0x46200)]
        + [(0x21FFFE000000, 0x1000000, 0x14220C)]
        + [(0, 0, 0)] * 5
    )
)
AER = "Undefined 0\nDLP 0\nTOTAL_ERR_{kind} {count}\n"
IOMEM = """\
00000000-00000fff : Reserved
9d800000-aeffffff : PCI Bus 0000:15
  9d900000-aeefffff : PCI Bus 0000:16
210000000000-21ffffffffff : PCI Bus 0000:15
  21ff00000000-21ffffffffff : PCI Bus 0000:16
b0000000-c07fffff : PCI Bus 0000:55
250000000000-25ffffffffff : PCI Bus 0000:55
"""
NVIDIA = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@U16-I2-C03-12-3)
GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""
INBOX = ("bnxt_en", "bnxt_re", "ice", "irdma", "ionic", "ionic_rdma", "efa", "rdma_ucm")
MODINFO = ("modinfo", "-n", "ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib", *INBOX)
MODULES = "".join(
    f"/lib/modules/6.8.0-100-generic/updates/dkms/{name}.ko.zst\n"
    for name in ("ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib")
) + "".join(f"/lib/modules/6.8.0-100-generic/kernel/drivers/{name}.ko.zst\n" for name in INBOX)
"""modinfo -n of kmod 31, with the modules of DOCA-OFED."""
CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Platinum 8480C
flags\t\t: fpu vme de pse tsc msr pae mce cx8 apic sep pdpe1gb
"""


def compute_metal_plan() -> Plan:
    """Return a plan of two nodes, with two rails, VFs and kernel arguments."""
    return compute_plan(load_fabric(FABRIC, "metal.yaml").fabric, {})


NODE = compute_metal_plan().nodes[0]
PORT = NODE.ports[1]


def build_config(*parts: tuple[int, str], size: int = 4096) -> bytes:
    """Return a configuration space of zeros, with a list of capabilities at 0x60 and the given bytes."""
    made = bytearray(size)
    for place, text in ((0x00, "b315 2110 0604 1000"), (0x34, "60"), *parts):
        raw = bytes.fromhex(text)
        made[place : place + len(raw)] = raw
    return bytes(made)


def build_bridge_config(acs: int = 0x01) -> bytes:
    """Return the configuration space of a bridge with ACS.

    A kernel with its IOMMU on sets 0x1d: SrcValid, both redirects, UpstreamFwd.
    """
    return build_config((0x100, f"0d000100 5f00 {acs:02x}00"))


def build_nic_config(control: str = "3059", ats: str = "0080") -> bytes:
    """Return that of a NIC of PCIe 5.0 x16, with read requests of 4096 bytes, relaxed ordering and ATS."""
    return build_config((0x60, f"10000200 00000000 {control} 0000 05010000 0000 0511"), (0x100, f"0f000100 0000 {ats}"))


def build_metal() -> Snapshot:
    """Return the snapshot of a sound server."""
    files: dict[str, str | bytes] = {
        "/proc/cpuinfo": CPUINFO,
        "/proc/cmdline": CMDLINE,
        "/proc/iomem": IOMEM,
        "/proc/uptime": "360000.00 1400000.00\n",
        "/sys/devices/system/node/online": "0-1\n",
        "/sys/devices/system/cpu/isolated": "8-15\n",
        "/sys/kernel/security/lockdown": "[none] integrity confidentiality\n",
        "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "16\n",
        "/proc/sys/kernel/osrelease": "6.8.0-100-generic\n",
        "/proc/driver/nvidia/version": NVIDIA,
        "/sys/module/nvidia/version": "570.86.15\n",
        "/sys/module/mlx5_core/version": "24.10-1.1.4\n",
        **{f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor": "performance\n" for cpu in range(4)},
        **{f"/sys/devices/system/node/node{n}/hugepages/hugepages-1048576kB/nr_hugepages": "8\n" for n in (0, 1)},
    }
    links: dict[str, str] = {"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": "libnvidia-ml.so.570.86.15"}
    names: list[str] = []
    for number, (side, nic, gpu) in enumerate(zip(("15", "55"), NICS, GPUS, strict=True)):
        files |= _build_nic(nic, number) | _build_gpu(gpu)
        above = _map_bridges(int(side, 16))
        links |= {f"{BUSES}/0000:{bus:02x}/device": f"../../../{bridge}" for bus, bridge in above.items()}
        for bus, bridge in above.items():
            if bridge.startswith("0000:"):
                files |= {f"{BUSES}/0000:{bus:02x}/device/{name}": text for name, text in _build_bridge().items()}
                names.append(bridge)
        links |= {f"{DEVICES}/{nic}/driver": "../../../../bus/pci/drivers/mlx5_core"}
        links |= {f"/sys/class/net/rail{number}/device": f"../../../{nic}"}
        names += [nic, gpu]
    return Snapshot(
        files={path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()},
        links=links,
        folders={
            DEVICES: tuple(sorted(names)),
            "/sys/firmware/acpi/tables": ("APIC", "DMAR", "DSDT", "FACP", "data", "dynamic"),
            "/sys/kernel/iommu_groups": tuple(map(str, range(40))),
            "/proc/driver/nvidia/gpus": GPUS,
            "/sys/module": ("ib_core", "ib_uverbs", "ice", "mlx5_core", "mlx5_ib", "nvidia", "rdma_ucm"),
        },
        outputs={
            ("dmesg",): ProgramResult(0, DMESG.format(cmdline=CMDLINE, nic=NIC)),
            MODINFO: ProgramResult(0, MODULES),
        },
    )


def _map_bridges(side: int) -> dict[int, str]:
    """Return the bridge above each bus."""
    top = f"0000:{side:02x}:01.0"
    switch, down = f"0000:{side + 1:02x}:00.0", f"0000:{side + 2:02x}"
    return {
        side: f"pci0000:{side:02x}",
        side + 1: top,
        side + 2: switch,
        side + 3: f"{down}:00.0",
        side + 4: f"{down}:01.0",
    }


def _build_nic(pci: str, number: int) -> dict[str, str | bytes]:
    attributes: dict[str, str | bytes] = {
        "vendor": "0x15b3\n",
        "device": "0x1021\n",
        "class": "0x020000\n",
        "config": build_nic_config(),
        "resource": RESOURCE,
        "sriov_totalvfs": "16\n",
        "sriov_numvfs": "8\n",
        "numa_node": f"{number}\n",
        "iommu_group/type": "identity\n",
        "current_link_width": "16\n",
        "max_link_width": "16\n",
        "current_link_speed": "32.0 GT/s PCIe\n",
        "max_link_speed": "32.0 GT/s PCIe\n",
        "aer_dev_correctable": AER.format(kind="COR", count=7),
        "aer_dev_nonfatal": AER.format(kind="NONFATAL", count=0),
        "aer_dev_fatal": AER.format(kind="FATAL", count=0),
        f"net/rail{number}/type": "1\n",
        f"infiniband/rail{number}/ports/1/link_layer": "Ethernet\n",
        f"infiniband/rail{number}/fw_ver": "28.39.1002\n",
        f"hwmon/hwmon{number}/temp1_input": "61000\n",
        f"hwmon/hwmon{number}/temp1_crit": "105000\n",
    }
    return {f"{DEVICES}/{pci}/{name}": text for name, text in attributes.items()}


def _build_gpu(pci: str) -> dict[str, str | bytes]:
    return {f"{DEVICES}/{pci}/vendor": "0x10de\n", f"{DEVICES}/{pci}/class": "0x030200\n"}


def _build_bridge() -> dict[str, str | bytes]:
    return {
        "config": build_bridge_config(),
        "max_link_width": "16\n",
        "max_link_speed": "32.0 GT/s PCIe\n",
        "aer_dev_fatal": AER.format(kind="FATAL", count=0),
    }


def build_metal_view(host: Snapshot | None = None) -> NodeView:
    """Return a view of the first node as planned, on this server."""
    return replace(build_sound_view(NODE), host=build_metal() if host is None else host)


Change = Callable[[Snapshot], Snapshot]
"""A change of the snapshot."""


def name_metal_view(name: str) -> NodeView:
    """Return a view of another node on a server of the same kind."""
    view = build_metal_view()
    return replace(view, node=view.node._replace(name=name))


def replace_file(path: str, text: str | bytes | None) -> Change:
    """Replace a file's content; None removes the file."""

    def change(host: Snapshot) -> Snapshot:
        kept = {place: content for place, content in host.files.items() if place != path}
        if text is not None:
            kept[path] = text if isinstance(text, bytes) else text.encode()
        return replace(host, files=kept)

    return change


def replace_link(path: str, target: str | None) -> Change:
    """Replace a link's target; None removes the link."""

    def change(host: Snapshot) -> Snapshot:
        kept = {place: to for place, to in host.links.items() if place != path}
        return replace(host, links=kept if target is None else {**kept, path: target})

    return change


def replace_folder(path: str, names: tuple[str, ...] | None) -> Change:
    """Replace the names in a folder; None removes the folder."""

    def change(host: Snapshot) -> Snapshot:
        kept = {place: held for place, held in host.folders.items() if place != path}
        return replace(host, folders=kept if names is None else {**kept, path: names})

    return change


def replace_output(argv: tuple[str, ...], text: str | None, status: int = 0) -> Change:
    """Replace a program's output; None removes the program."""

    def change(host: Snapshot) -> Snapshot:
        kept = {words: ran for words, ran in host.outputs.items() if words != argv}
        return replace(host, outputs=kept if text is None else {**kept, argv: ProgramResult(status, text)})

    return change


def append_log(line: str) -> Change:
    """Append a line to the kernel's log."""
    return lambda host: replace_output(("dmesg",), f"{host.get_output('dmesg')}[  512.000001] {line}\n")(host)


def combine(*changes: Change) -> Change:
    """Combine changes in order."""

    def change(host: Snapshot) -> Snapshot:
        for change_host in changes:
            host = change_host(host)
        return host

    return change


STEPS = ("bios", "cmdline", "firmware", "drivers")
"""Steps for which this server has all data."""


def list_findings(host: Snapshot, step: str = "") -> tuple[Finding, ...]:
    """Return doctor's findings in these steps, or in one of them."""
    findings = diagnose_nodes([build_metal_view(host)]).findings
    return tuple(finding for finding in findings if finding.step == step or (not step and finding.step in STEPS))


def find_first_fault(host: Snapshot) -> str | None:
    """Return the fault that doctor names first in these steps."""
    first = select_finding_to_fix(list_findings(host))
    return first.id if first else None


def list_verdicts(host: Snapshot, fault_id: str) -> set[str]:
    """Return the verdicts of one check over all rails; empty if it was skipped."""
    return {finding.verdict for finding in list_findings(host) if finding.id == fault_id}
