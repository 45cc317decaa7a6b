"""Machines that others published, as snapshots: which devices there are, where they stand, what nvidia-smi says.

Each line of a machine: kind, place in the PCIe tree below the host bridge, vendor:device, NUMA node, and for NICs the
RDMA device. Topologies are those of the sources named; what a source does not tell (bridges in between) is left out.
"""

from __future__ import annotations

from dataclasses import replace

from trackbed.host.discover.wanted import DEVICES, DMI, GPUS, NETDEVS, RDMA, TOPOLOGY
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot

# A server with 8 MI355X and 8 BCM57608, each pair behind a switch of its own.
# Source: ROCm/rccl, tools/topo_expl/models/topo_8p_950.xml (a dump of a real machine).
MI355X = """
nic 0/01/03 14e4:1760 0 bnxt_re0
gpu 0/01/06/08 1002:75a0 0
nic 0/11/13 14e4:1760 0 bnxt_re1
gpu 0/11/16/18 1002:75a0 0
nic 0/61/63 14e4:1760 0 bnxt_re2
gpu 0/61/66/68 1002:75a0 0
nic 0/71/73 14e4:1760 0 bnxt_re3
gpu 0/71/76/78 1002:75a0 0
nic 80/81/83 14e4:1760 1 bnxt_re4
gpu 80/81/86/88 1002:75a0 1
nic 80/91/93 14e4:1760 1 bnxt_re5
gpu 80/91/96/98 1002:75a0 1
nic 80/e1/e3 14e4:1760 1 bnxt_re6
gpu 80/e1/e6/e8 1002:75a0 1
nic 80/f1/f3 14e4:1760 1 bnxt_re7
gpu 80/f1/f7/f9 1002:75a0 1
"""

# A server with 8 MI250X (16 GPUs to the system) and 8 ConnectX-6, whose GPUs do not count by PCI address.
# Source: ROCm/rccl, tools/topo_expl/models/topo_16p1h.xml. The second half of the tree stands on NUMA nodes 2 and 3.
MI250X = """
nic 40/41/49/4b 15b3:101b 0 mlx5_0
gpu 40/41/49/4c/4e 1002:740c 0
gpu 40/41/49/4f/51 1002:740c 0
nic 40/41/52/5a 15b3:101b 0 mlx5_1
gpu 40/41/52/54/56 1002:740c 0
gpu 40/41/52/57/59 1002:740c 0
nic 0/01/09/0b 15b3:101b 1 mlx5_2
gpu 0/01/09/0c/0e 1002:740c 1
gpu 0/01/09/0f/11 1002:740c 1
nic 0/01/12/1a 15b3:101b 1 mlx5_3
gpu 0/01/12/14/16 1002:740c 1
gpu 0/01/12/17/19 1002:740c 1
nic c0/c2/ca/cc 15b3:101b 2 mlx5_4
gpu c0/c2/ca/cd/cf 1002:740c 2
gpu c0/c2/ca/d0/d2 1002:740c 2
nic c0/c2/d3/db 15b3:101b 2 mlx5_5
gpu c0/c2/d3/d5/d7 1002:740c 2
gpu c0/c2/d3/d8/da 1002:740c 2
nic 80/82/8a/8c 15b3:101b 3 mlx5_7
gpu 80/82/8a/8d/8f 1002:740c 3
gpu 80/82/8a/90/92 1002:740c 3
nic 80/82/93/9b 15b3:101b 3 mlx5_8
gpu 80/82/93/95/97 1002:740c 3
gpu 80/82/93/98/9a 1002:740c 3
"""
MI250X_ORDER = "4e 51 56 59 0e 11 16 19 cf d2 d7 da 8f 92 97 9a"

# A server with 8 GPUs whose NICs count backwards: GPU 0 has NIC 8, GPU 7 has NIC 1; NIC 0 is beside none.
# Source: github.com/NVIDIA/nccl/issues/1453 (`nvidia-smi topo -m`); a VM, so the tree shows nothing.
BACKWARDS_ROWS = """
GPU0 SYS SYS SYS SYS SYS NODE NODE NODE PIX 0
GPU1 SYS SYS SYS SYS SYS NODE NODE PIX NODE 0
GPU2 SYS SYS SYS SYS SYS NODE PIX NODE NODE 0
GPU3 SYS SYS SYS SYS SYS PIX NODE NODE NODE 0
GPU4 SYS NODE NODE NODE PIX SYS SYS SYS SYS 1
GPU5 SYS NODE NODE PIX NODE SYS SYS SYS SYS 1
GPU6 SYS NODE PIX NODE NODE SYS SYS SYS SYS 1
GPU7 SYS PIX NODE NODE NODE SYS SYS SYS SYS 1
"""

# 8 GPUs, 6 NICs of which 4 serve two GPUs each, in no order of either.
# Source: github.com/NVIDIA/nccl/issues/1435 (`nvidia-smi topo -m`).
SHARED_ROWS = """
GPU0 SYS PXB SYS SYS SYS SYS 3
GPU1 SYS PXB SYS SYS SYS SYS 3
GPU2 PXB SYS SYS SYS SYS SYS 1
GPU3 PXB SYS SYS SYS SYS SYS 1
GPU4 SYS SYS SYS SYS SYS PXB 7
GPU5 SYS SYS SYS SYS SYS PXB 7
GPU6 SYS SYS PXB SYS SYS SYS 5
GPU7 SYS SYS PXB SYS SYS SYS 5
"""

# One half of a server: four A100 PCIe and a dual-port ConnectX-6 Dx with two VFs behind one switch.
# Source: github.com/NVIDIA/nccl/issues/1405 (`lspci -tv`).
ONE_CARD = """
nic 97/98/99/9a.0 15b3:101d 1 mlx5_0
nic 97/98/99/9a.1 15b3:101d 1 mlx5_1
vf 97/98/99/9a.2 15b3:101e 1 mlx5_2
vf 97/98/99/9a.3 15b3:101e 1 mlx5_3
gpu 97/98/99/9b 10de:20b5 1
gpu 97/98/99/9c 10de:20b5 1
gpu 97/98/99/9d 10de:20b5 1
gpu 97/98/99/9e 10de:20b5 1
"""


def machine(text: str) -> Snapshot:
    """The snapshot of a machine by its lines."""
    files: dict[str, bytes] = {"/proc/sys/kernel/hostname": b"gpu-0\n"}
    links: dict[str, str] = {}
    for line in text.split("\n"):
        if words := line.split():
            _device(files, links, words)
    return Snapshot(files=files, links=links)


def _device(files: dict[str, bytes], links: dict[str, str], words: list[str]) -> None:
    kind, tree, ident, numa = words[:4]
    bridge, *buses = tree.split("/")
    places = [f"0000:{bus}" + ("" if "." in bus else ":00.0") for bus in buses]
    places[-1] = address(buses[-1])
    where = "/".join((f"pci0000:{int(bridge, 16):02x}", *places))
    device = f"{DEVICES}/{places[-1]}"
    links[device] = f"../../../devices/{where}"
    vendor, _, model = ident.partition(":")
    attributes = {"vendor": f"0x{vendor}", "device": f"0x{model}", "numa_node": numa}
    attributes["class"] = {"gpu": "0x120000" if vendor == "1002" else "0x030200"}.get(kind, "0x020000")
    files |= {f"{device}/{name}": f"{value}\n".encode() for name, value in attributes.items()}
    for rdma in words[4:]:
        links[f"{RDMA}/{rdma}"] = f"../../devices/{where}/infiniband/{rdma}"
        links[f"{NETDEVS}/eth_{rdma}"] = f"../../devices/{where}/net/eth_{rdma}"
    if kind == "vf":
        links[f"{device}/physfn"] = f"../{places[-1].rpartition('.')[0]}.0"


def address(bus: str) -> str:
    """4e -> 0000:4e:00.0, 9a.1 -> 0000:9a:00.1."""
    bus, _, function = bus.partition(".")
    return f"0000:{bus}:00.{function or 0}"


def virtual(rows: str) -> Snapshot:
    """A machine of which only nvidia-smi tells: GPUs and NICs hang below host bridges of their own."""
    lines = [row.split() for row in rows.strip().splitlines()]
    nics = len(lines[0]) - 2
    devices = [f"nic {0x40 + n:x}/{0x40 + n:x} 15b3:1021 -1 mlx5_{n}" for n in range(nics)]
    devices += [f"gpu {0x80 + n:x}/{0x80 + n:x} 10de:2330 -1" for n in range(len(lines))]
    query = "".join(f"{n}, 00000000:{0x80 + n:X}:00.0\n" for n in range(len(lines)))
    outputs: dict[tuple[str, ...], ProgramResult] = {
        TOPOLOGY: ProgramResult(0, topology(lines, nics)),
        GPUS: ProgramResult(0, query),
    }
    return replace(machine("\n".join(devices)), outputs=outputs)


def topology(lines: list[list[str]], nics: int) -> str:
    """What `nvidia-smi topo -m` prints around such rows: a heading (underlined), the GPUs' own columns, a legend."""
    names = [f"GPU{n}" for n in range(len(lines))] + [f"NIC{n}" for n in range(nics)]
    text = "\t\x1b[4m" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]) + "\x1b[0m\n"
    for at, (name, *near, numa) in enumerate(lines):
        row = [" X " if n == at else "NV18" for n in range(len(lines))]
        text += "\t".join([name, *row, *near, "0-79", numa, "", "N/A"]) + "\n"
    legend = "".join(f"  NIC{n}: mlx5_{n}\n" for n in range(nics))
    return f"{text}\nLegend:\n\n  X    = Self\n  PIX  = one switch\n\nNIC Legend:\n\n{legend}"


def with_files(snapshot: Snapshot, files: dict[str, str]) -> Snapshot:
    """The same machine with more files."""
    return replace(snapshot, files={**snapshot.files, **{path: text.encode() for path, text in files.items()}})


def product(snapshot: Snapshot, name: str) -> Snapshot:
    """The same machine with a product name."""
    return with_files(snapshot, {f"{DMI}/product_name": f"{name}\n"})
