"""A machine's inventory, out of a snapshot of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec
import yaml

from trackbed.host.discover import matrix
from trackbed.host.discover.inventory import Gpu, Inventory, Nic
from trackbed.host.discover.kfd import kfd_order
from trackbed.host.discover.routes import default_interfaces
from trackbed.host.discover.wanted import DEVICES, DMI, GPUS, NETDEVS, RDMA, TOPOLOGY
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.host.snapshot.vpd import parse as parse_vpd

_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_INFINIBAND_DEVICE = "32"
"""ARPHRD_INFINIBAND of include/uapi/linux/if_arp.h."""
_NETWORK = "0x02"
_DISPLAY = ("0x0300", "0x0302", "0x0380", "0x1200")
"""VGA, 3D and other display controllers, processing accelerator: what GPUs report as their class."""
_GPU_VENDORS = ("0x10de", "0x1002")


class Model(msgspec.Struct, frozen=True):
    """What is known of a NIC by its id."""

    model: str
    role: str
    gbps: int | None


@cache
def models() -> dict[str, Model]:
    """All NICs that are known, by vendor and device."""
    raw = files("trackbed.host.discover").joinpath("nics.yaml").read_bytes()
    return msgspec.convert(yaml.load(raw, yaml.CSafeLoader), dict[str, Model])


def inventory(seen: Snapshot) -> Inventory:
    """Everything that is known of the machine the snapshot was taken of."""
    owners = _owners(seen)
    routed = default_interfaces(seen)
    addresses = [path.rpartition("/")[2] for path in seen.glob(f"{DEVICES}/*")]
    nics = tuple(_nic(seen, pci, owners, routed) for pci in addresses if _is_nic(seen, pci))
    gpus = _gpus(seen, [pci for pci in addresses if _is_gpu(seen, pci)])
    return Inventory(
        host=(seen.text("/proc/sys/kernel/hostname") or "host").partition(".")[0],
        nics=nics,
        gpus=gpus,
        vendor=seen.text(f"{DMI}/sys_vendor") or "",
        product=seen.text(f"{DMI}/product_name") or "",
        matrix=_matrix(seen, gpus, nics),
    )


def _is_nic(seen: Snapshot, pci: str) -> bool:
    return (seen.text(f"{DEVICES}/{pci}/class") or "").startswith(_NETWORK)


def _is_gpu(seen: Snapshot, pci: str) -> bool:
    device = f"{DEVICES}/{pci}"
    display = (seen.text(f"{device}/class") or "").startswith(_DISPLAY)
    return display and seen.text(f"{device}/vendor") in _GPU_VENDORS and f"{device}/physfn" not in seen.links


def _owners(seen: Snapshot) -> dict[str, dict[str, str]]:
    """PCI address -> {"net": its first interface, "rdma": its RDMA device}."""
    found: dict[str, dict[str, str]] = {}
    for kind, folder in (("net", NETDEVS), ("rdma", RDMA)):
        for path in seen.glob(f"{folder}/*"):
            place = _PCI.findall(seen.links.get(path, ""))
            if place:
                found.setdefault(place[-1], {}).setdefault(kind, path.rpartition("/")[2])
    return found


def _nic(seen: Snapshot, pci: str, owners: Mapping[str, Mapping[str, str]], routed: frozenset[str]) -> Nic:
    device, owned = f"{DEVICES}/{pci}", owners.get(pci, {})
    netdev, rdma = owned.get("net"), owned.get("rdma")
    known = models().get(_id(seen, device))
    return Nic(
        pci=pci,
        path=_path(seen, pci),
        id=_id(seen, device),
        model=known.model if known else "",
        subsystem=_id(seen, device, "subsystem_vendor", "subsystem_device"),
        netdev=netdev,
        mac=_mac(seen, netdev),
        link=_link(seen, device, netdev, rdma),
        speed=_speed(seen, netdev, rdma),
        max_speed=known.gbps * 1000 if known and known.gbps else None,
        numa=_numa(seen, device),
        driver=seen.target(f"{device}/driver"),
        rdma=rdma,
        firmware=seen.text(f"{RDMA}/{rdma}/fw_ver") if rdma else None,
        part=_part(seen, netdev, rdma),
        label=seen.text(f"{device}/label"),
        vfs=seen.number(f"{device}/sriov_totalvfs"),
        pf=seen.target(f"{device}/physfn"),
        pcie=_pcie(seen, device),
        default_route=netdev in routed,
    )


def _gpus(seen: Snapshot, addresses: list[str]) -> tuple[Gpu, ...]:
    told = {pci: index for index, pci in matrix.bus_ids(seen.said(*GPUS) or "").items()} or kfd_order(seen)
    ordered = sorted(addresses, key=lambda pci: (told.get(pci, len(told)), pci))
    return tuple(_gpu(seen, pci, told.get(pci, index)) for index, pci in enumerate(ordered))


def _gpu(seen: Snapshot, pci: str, index: int) -> Gpu:
    device = f"{DEVICES}/{pci}"
    driver = seen.target(f"{device}/driver")
    return Gpu(index, pci, _path(seen, pci), _id(seen, device), _numa(seen, device), driver)


def _matrix(seen: Snapshot, gpus: tuple[Gpu, ...], nics: tuple[Nic, ...]) -> dict[str, dict[str, str]]:
    by_name = {nic.rdma: nic.pci for nic in nics if nic.rdma}
    by_index = {gpu.index: gpu.pci for gpu in gpus}
    return matrix.by_address(matrix.parse(seen.said(*TOPOLOGY) or ""), by_index, by_name)


def _path(seen: Snapshot, pci: str) -> tuple[str, ...]:
    """From the host bridge down: the parts of the device's place in sysfs from pciDDDD:BB on."""
    parts = seen.links.get(f"{DEVICES}/{pci}", pci).split("/")
    root = next((at for at, part in enumerate(parts) if re.match(r"pci[0-9a-f]{4}", part)), len(parts) - 1)
    return tuple(parts[root:])


def _id(seen: Snapshot, device: str, vendor: str = "vendor", model: str = "device") -> str:
    both = (seen.text(f"{device}/{name}") or "" for name in (vendor, model))
    return ":".join(one.removeprefix("0x") for one in both).strip(":")


def _numa(seen: Snapshot, device: str) -> int | None:
    node = seen.number(f"{device}/numa_node")
    return node if node is not None and node >= 0 else None


def _mac(seen: Snapshot, netdev: str | None) -> str | None:
    """Its hardware address, unless somebody set it by hand (NET_ADDR_PERM is 0): a bond, an administrator."""
    if netdev is None or seen.number(f"{NETDEVS}/{netdev}/addr_assign_type") not in {0, None}:
        return None
    return seen.text(f"{NETDEVS}/{netdev}/address")


def _link(seen: Snapshot, device: str, netdev: str | None, rdma: str | None) -> str:
    told = seen.text(f"{RDMA}/{rdma}/ports/1/link_layer") if rdma else None
    kind = seen.text(f"{NETDEVS}/{netdev}/type") if netdev else None
    only_infiniband = (seen.text(f"{device}/class") or "").startswith("0x0207") and told is None and kind is None
    return "infiniband" if told == "InfiniBand" or kind == _INFINIBAND_DEVICE or only_infiniband else "ethernet"


def _speed(seen: Snapshot, netdev: str | None, rdma: str | None) -> int | None:
    """Mb/s; InfiniBand without an interface tells it as `400 Gb/sec (4X NDR)`."""
    told = seen.number(f"{NETDEVS}/{netdev}/speed") if netdev else None
    if told is not None and told > 0:
        return told
    if rdma is None or netdev is not None:
        return None
    rate = re.match(r"([0-9.]+) Gb/sec", seen.text(f"{RDMA}/{rdma}/ports/1/rate") or "")
    return round(float(rate[1]) * 1000) if rate else None


def _part(seen: Snapshot, netdev: str | None, rdma: str | None) -> str | None:
    for owner in (f"{NETDEVS}/{netdev}", f"{RDMA}/{rdma}"):
        raw = seen.content(f"{owner}/device/vpd")
        if isinstance(raw, bytes):
            return parse_vpd(raw).part or None
    return None


def _pcie(seen: Snapshot, device: str) -> str | None:
    speed, width = seen.text(f"{device}/current_link_speed"), seen.text(f"{device}/current_link_width")
    if not speed or not width or speed.startswith("Unknown") or width == "0":
        return None
    return f"{speed.removesuffix(' PCIe')} x{width}"
