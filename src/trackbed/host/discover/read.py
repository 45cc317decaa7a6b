"""Builds a machine's inventory from its snapshot."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec
import yaml

from trackbed.fabric.gpus import GPU_RESOURCES
from trackbed.host.discover import matrix
from trackbed.host.discover.inventory import Gpu, Inventory, Nic
from trackbed.host.discover.routes import find_default_interfaces
from trackbed.host.discover.wanted import DEVICES, DMI, GPUS, KFD, NETDEVS, RDMA, TOPOLOGY
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.host.snapshot.vpd import parse_vpd

_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_INFINIBAND_DEVICE = "32"
"""ARPHRD_INFINIBAND of include/uapi/linux/if_arp.h."""
_NETWORK = "0x02"
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""PCI classes of GPUs: VGA, 3D and other display controllers, processing accelerators."""
_GPU_VENDORS = tuple(f"0x{vendor}" for vendor in GPU_RESOURCES)


class Model(msgspec.Struct, frozen=True):
    """A known NIC model."""

    model: str
    role: str
    gbps: int | None


@cache
def load_models() -> dict[str, Model]:
    """Load all known NIC models by vendor and device id."""
    raw = files("trackbed.host.discover").joinpath("nics.yaml").read_bytes()
    return msgspec.convert(yaml.load(raw, yaml.CSafeLoader), dict[str, Model])


def read_inventory(snapshot: Snapshot) -> Inventory:
    """Build a machine's inventory from its snapshot."""
    owners = _find_function_devices(snapshot)
    routed = find_default_interfaces(snapshot)
    addresses = [path.rpartition("/")[2] for path in snapshot.glob(f"{DEVICES}/*")]
    nics = tuple(_read_nic(snapshot, pci, owners, routed) for pci in addresses if _is_nic(snapshot, pci))
    gpus = _read_gpus(snapshot, [pci for pci in addresses if _is_gpu(snapshot, pci)])
    return Inventory(
        host=(snapshot.read_text("/proc/sys/kernel/hostname") or "host").partition(".")[0],
        nics=nics,
        gpus=gpus,
        vendor=snapshot.read_text(f"{DMI}/sys_vendor") or "",
        product=snapshot.read_text(f"{DMI}/product_name") or "",
        matrix=_read_matrix(snapshot, gpus, nics),
    )


def _is_nic(snapshot: Snapshot, pci: str) -> bool:
    return (snapshot.read_text(f"{DEVICES}/{pci}/class") or "").startswith(_NETWORK)


def _is_gpu(snapshot: Snapshot, pci: str) -> bool:
    device = f"{DEVICES}/{pci}"
    display = (snapshot.read_text(f"{device}/class") or "").startswith(_GPU_CLASSES)
    return (
        display and snapshot.read_text(f"{device}/vendor") in _GPU_VENDORS and f"{device}/physfn" not in snapshot.links
    )


def _find_function_devices(snapshot: Snapshot) -> dict[str, dict[str, str]]:
    """Return the first interface ("net") and the RDMA device ("rdma") of each function by PCI address."""
    owners: dict[str, dict[str, str]] = {}
    for kind, folder in (("net", NETDEVS), ("rdma", RDMA)):
        for path in snapshot.glob(f"{folder}/*"):
            addresses = _PCI.findall(snapshot.links.get(path, ""))
            if addresses:
                owners.setdefault(addresses[-1], {}).setdefault(kind, path.rpartition("/")[2])
    return owners


def _read_nic(
    snapshot: Snapshot, pci: str, owners: Mapping[str, Mapping[str, str]], default_interfaces: frozenset[str]
) -> Nic:
    device, owned = f"{DEVICES}/{pci}", owners.get(pci, {})
    netdev, rdma = owned.get("net"), owned.get("rdma")
    known = load_models().get(_read_id(snapshot, device))
    return Nic(
        pci=pci,
        path=_read_path(snapshot, pci),
        id=_read_id(snapshot, device),
        model=known.model if known else "",
        subsystem=_read_id(snapshot, device, "subsystem_vendor", "subsystem_device"),
        netdev=netdev,
        mac=_read_mac(snapshot, netdev),
        link=_read_link_layer(snapshot, device, netdev, rdma),
        speed=_read_speed(snapshot, netdev, rdma),
        max_speed=known.gbps * 1000 if known and known.gbps else None,
        numa=_read_numa_node(snapshot, device),
        driver=snapshot.get_target(f"{device}/driver"),
        rdma=rdma,
        firmware=snapshot.read_text(f"{RDMA}/{rdma}/fw_ver") if rdma else None,
        part=_read_part_number(snapshot, netdev, rdma),
        label=snapshot.read_text(f"{device}/label"),
        vfs=snapshot.read_number(f"{device}/sriov_totalvfs"),
        pf=snapshot.get_target(f"{device}/physfn"),
        pcie=_read_pcie_link(snapshot, device),
        default_route=netdev in default_interfaces,
    )


def _read_gpus(snapshot: Snapshot, pci_addresses: list[str]) -> tuple[Gpu, ...]:
    indexes = {
        pci: index for index, pci in matrix.parse_bus_ids(snapshot.get_output(*GPUS) or "").items()
    } or read_kfd_indexes(snapshot)
    ordered = sorted(pci_addresses, key=lambda pci: (indexes.get(pci, len(indexes)), pci))
    return tuple(_read_gpu(snapshot, pci, indexes.get(pci, index)) for index, pci in enumerate(ordered))


def read_kfd_indexes(snapshot: Snapshot) -> dict[str, int]:
    """Return ROCm's index of each AMD GPU by PCI address: the order of the kernel's compute topology.

    Empty if the compute part of the amdgpu driver is not loaded.
    """
    nodes = sorted(snapshot.glob(f"{KFD}/*/properties"), key=lambda path: int(path.split("/")[-2]))
    gpus = [pci for path in nodes if (pci := _parse_kfd_address(snapshot.read_text(path) or ""))]
    return {pci: index for index, pci in enumerate(gpus)}


def _parse_kfd_address(properties: str) -> str | None:
    """Return the PCI address of a topology node; None if it is not a GPU (it has no SIMD units).

    `location_id` holds bus, device and function.
    """
    values = {words[0]: words[1] for words in map(str.split, properties.splitlines()) if len(words) > 1}
    if values.get("simd_count", "0") == "0" or not values.get("location_id", "").isdigit():
        return None
    location, domain = int(values["location_id"]), int(values.get("domain", "0"))
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _read_gpu(snapshot: Snapshot, pci: str, index: int) -> Gpu:
    device = f"{DEVICES}/{pci}"
    driver = snapshot.get_target(f"{device}/driver")
    return Gpu(
        index, pci, _read_path(snapshot, pci), _read_id(snapshot, device), _read_numa_node(snapshot, device), driver
    )


def _read_matrix(snapshot: Snapshot, gpus: tuple[Gpu, ...], nics: tuple[Nic, ...]) -> dict[str, dict[str, str]]:
    by_name = {nic.rdma: nic.pci for nic in nics if nic.rdma}
    by_index = {gpu.index: gpu.pci for gpu in gpus}
    return matrix.key_by_address(matrix.parse_matrix(snapshot.get_output(*TOPOLOGY) or ""), by_index, by_name)


def _read_path(snapshot: Snapshot, pci: str) -> tuple[str, ...]:
    """Return the components of a device's path in sysfs, starting with the host bridge (pciDDDD:BB)."""
    parts = snapshot.links.get(f"{DEVICES}/{pci}", pci).split("/")
    root = next((i for i, part in enumerate(parts) if re.match(r"pci[0-9a-f]{4}", part)), len(parts) - 1)
    return tuple(parts[root:])


def _read_id(snapshot: Snapshot, device: str, vendor: str = "vendor", model: str = "device") -> str:
    both = (snapshot.read_text(f"{device}/{name}") or "" for name in (vendor, model))
    return ":".join(number.removeprefix("0x") for number in both).strip(":")


def _read_numa_node(snapshot: Snapshot, device: str) -> int | None:
    node = snapshot.read_number(f"{device}/numa_node")
    return node if node is not None and node >= 0 else None


def _read_mac(snapshot: Snapshot, netdev: str | None) -> str | None:
    """Return the MAC address; None if software, such as a bond, has set it (addr_assign_type is not 0)."""
    if netdev is None or snapshot.read_number(f"{NETDEVS}/{netdev}/addr_assign_type") not in {0, None}:
        return None
    return snapshot.read_text(f"{NETDEVS}/{netdev}/address")


def _read_link_layer(snapshot: Snapshot, pci_path: str, netdev: str | None, rdma_device: str | None) -> str:
    layer = snapshot.read_text(f"{RDMA}/{rdma_device}/ports/1/link_layer") if rdma_device else None
    kind = snapshot.read_text(f"{NETDEVS}/{netdev}/type") if netdev else None
    only_infiniband = (
        (snapshot.read_text(f"{pci_path}/class") or "").startswith("0x0207") and layer is None and kind is None
    )
    return "infiniband" if layer == "InfiniBand" or kind == _INFINIBAND_DEVICE or only_infiniband else "ethernet"


def _read_speed(snapshot: Snapshot, netdev: str | None, rdma: str | None) -> int | None:
    """Return the speed in Mb/s; None while the link is down.

    An InfiniBand port can be active while its interface, which is for IP only, is down or does not exist.
    """
    speed = snapshot.read_number(f"{NETDEVS}/{netdev}/speed") if netdev else None
    if speed is not None and speed > 0:
        return speed
    is_infiniband = snapshot.read_text(f"{RDMA}/{rdma}/ports/1/link_layer") == "InfiniBand"
    return _read_rate(snapshot, rdma) if rdma and (is_infiniband or netdev is None) else None


def _read_rate(snapshot: Snapshot, rdma: str) -> int | None:
    """Parse the rate of an RDMA port, such as `400 Gb/sec (4X NDR)`; None while the port is down."""
    if (snapshot.read_text(f"{RDMA}/{rdma}/ports/1/state") or "").endswith("DOWN"):
        return None
    rate = re.match(r"([0-9.]+) Gb/sec", snapshot.read_text(f"{RDMA}/{rdma}/ports/1/rate") or "")
    return round(float(rate[1]) * 1000) if rate else None


def _read_part_number(snapshot: Snapshot, netdev: str | None, rdma: str | None) -> str | None:
    for owner in (f"{NETDEVS}/{netdev}", f"{RDMA}/{rdma}"):
        raw = snapshot.read_bytes(f"{owner}/device/vpd")
        if isinstance(raw, bytes):
            return parse_vpd(raw).part or None
    return None


def _read_pcie_link(snapshot: Snapshot, device: str) -> str | None:
    speed, width = (
        snapshot.read_text(f"{device}/current_link_speed"),
        snapshot.read_text(f"{device}/current_link_width"),
    )
    if not speed or not width or speed.startswith("Unknown") or width == "0":
        return None
    return f"{speed.removesuffix(' PCIe')} x{width}"
