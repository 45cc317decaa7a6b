"""A host with 8 H100 and 8 rails in operation, as large as a real one: its files, and what its programs print.

The PCI tree is that of `tests/host/h100.py`. How many functions, counters and lines there are is taken from public
captures of such hosts: 517 PCI functions, 1,830 bytes of `lspci -vvv` and 4 KiB of configuration space for each,
51 counters for each RDMA device. Text that nothing reads is random, so that it compresses no better than real text.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.host import h100
from tests.host.h100 import Function
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.recorded_network import ADDRESSES, LINKS

NAME: Final = "gpu0000"
MACHINE_ID: Final = "00000000000000000000000000000000"
FIRMWARE: Final = "28.41.1000"
LINKS_MARK, ADDRESSES_MARK = "@links@", "@addresses@"
"""Stand-ins for what `ip` prints; `captures.py` puts in what each host prints."""
RAILS: Final = len(h100.RAILS)
FUNCTIONS: Final = 517
_CPUS: Final = 224
_TRAFFIC: Final = tuple(
    f"{direction}_{unit}" for direction in ("port_rcv", "port_xmit") for unit in ("data", "packets")
)
_COUNTERS: Final = {
    "counters": (*_TRAFFIC, *(f"port_error_{number}" for number in range(17))),
    "hw_counters": ("np_cnp_sent", "rp_cnp_handled", *(f"resp_error_{number}" for number in range(28))),
}
_OUTPUT_BYTES: Final = {
    "dmesg": 600_000,
    "lspci": 946_000,
    "devlink": 24_000,
    "modinfo": 600,
    "ibv_devinfo": 9_000,
    "nvidia-smi": 3_000,
    "lscpu": 4_000,
    "numactl": 2_500,
    "rdma": 3_000,
    "ibstat": 5_000,
    "containerd": 14_000,
    "systemctl": 800,
    "kubelet": 300,
    "ps": 1_200,
    "ip": 60_000,
    "uname": 120,
    "timedatectl": 40,
}
"""Sizes of what programs print; those of ethtool follow."""
_ETHTOOL_BYTES: Final = {"-S": 48_000, "-k": 2_600, "-i": 240, "-g": 500, "--show-priv-flags": 500}


def read_mac(rail: int) -> str:
    """Return the MAC of a rail of the first host: b8:3f:d2 and the bus, as `tests/host/h100.py` writes it."""
    return f"b8:3f:d2:00:{h100.RAILS[rail][5:7]}:00"


def read_guid(rail: int) -> str:
    """Return the GUID of a rail's device of the first host."""
    return f"b83f:d200:0000:{h100.RAILS[rail][5:7]}00"


@dataclass
class Programs:
    """The programs of the host. Random text has a seed, so that every run measures the same bytes."""

    share: float = 1.0
    """Part of the usual output that they print."""
    random: random.Random = field(default_factory=lambda: random.Random(30))  # noqa: S311 - no secret

    def has_program(self, program: str) -> bool:
        """Return whether the host has a program."""
        return program in _OUTPUT_BYTES or program in {"ethtool", "dcb"}

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """Print text of the usual size."""
        marks = {LINKS: LINKS_MARK, ADDRESSES: ADDRESSES_MARK}
        size = _ETHTOOL_BYTES.get(argv[1], 900) if argv[0] == "ethtool" else _OUTPUT_BYTES.get(argv[0], 400)
        return ProgramResult(0, marks.get(tuple(argv)) or "".join(self._iter_lines(size * self.share)))

    def _iter_lines(self, size: float) -> Iterator[str]:
        while size > 0:
            line = f"\t{self.random.choice(_WORDS)} {self.random.choice(_WORDS)}: {self.random.getrandbits(40):x}\n"
            size -= len(line)
            yield line


_WORDS: Final = ("DevCap", "DevCtl", "LnkSta", "Memory", "Control", "NUMA", "Kernel", "rx", "tx", "packets", "bytes")


def list_functions(count: int = FUNCTIONS) -> list[Function]:
    """Return the functions of `tests/host/h100.py`, and those of the processors up to a count."""
    functions = h100.list_functions()
    places = ((bus, slot, number) for bus in range(0xE0, 0xFF) for slot in range(32) for number in range(8))
    processors = (
        Function((f"pci0000:{bus:02x}", f"0000:{bus:02x}:{slot:02x}.{number}"), "0880", "8086:09a2", 1)
        for bus, slot, number in places
    )
    return functions + [next(processors) for _ in range(count - len(functions))]


def write_host(root: Path, rails: Sequence[int] = range(RAILS), functions: int = FUNCTIONS) -> Path:
    """Write the host below a root. `rails` has the rail of each port in the order of PCI addresses."""
    every = list_functions(functions)
    h100.write_host(root, every, dict(_iter_system_files()))
    for function in every:
        _write_attributes(root, function)
    for pci, rail in zip(h100.RAILS, rails, strict=True):
        _name_port(root, pci, f"rail{rail}")
        _write_rdma_device(root, pci, rail)
    return root


def _iter_system_files() -> Iterator[tuple[str, str]]:
    yield "/proc/sys/kernel/hostname", NAME
    yield "/etc/machine-id", MACHINE_ID
    yield "/sys/module/mlx5_core/version", "24.10-1.1.4"
    yield "/proc/modules", "mlx5_core 2154496 1 mlx5_ib, Live 0x0000000000000000\n" * 160
    yield "/proc/meminfo", "HugePages_Total:       0\n" * 56
    yield "/proc/iomem", "  a0000000-a1ffffff : 0000:1a:00.0\n" * 1800
    yield "/etc/containerd/config.toml", "  [plugins.'io.containerd.cri.v1.runtime']\n" * 300
    for number in range(_CPUS):
        yield f"/sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor", "performance"
    for number in range(220):
        yield f"/sys/module/module{number}/refcnt", "1"
    for number in range(60):
        yield f"/usr/lib/sysctl.d/{number}-settings.conf", "net.ipv4.conf.all.rp_filter = 2\n" * 20


def _write_attributes(root: Path, function: Function) -> None:
    """Write the attributes that every PCI function of a real host has beside those of `tests/host/h100.py`."""
    folder = root.joinpath("sys/devices", *function.path)
    errors = "".join(f"{name} 0\n" for name in ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "TOTAL_ERR_COR"))
    texts = {
        "resource": "0x0000000000000000 0x0000000000000000 0x0000000000000000\n" * 13,
        "subsystem_vendor": "0x1028\n",
        "subsystem_device": "0x0b73\n",
        "driver_override": "(null)\n",
        **({f"aer_dev_{kind}": errors for kind in ("correctable", "nonfatal", "fatal")}),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)


def _name_port(root: Path, pci: str, name: str) -> None:
    """Give a port the name of its rail, and its attributes."""
    (folder,) = root.glob(f"sys/bus/pci/devices/{pci}/net/*")
    link = root / "sys/class/net" / folder.name
    target = link.readlink().with_name(name)
    link.unlink()
    (root / "sys/class/net" / name).symlink_to(target)
    port = folder.rename(folder.with_name(name))
    attributes = {"mtu": "9000", "speed": "400000", "operstate": "up", "type": "1", "dev_port": "0", "carrier": "1"}
    for attribute, text in attributes.items():
        (port / attribute).write_text(f"{text}\n")


def _write_rdma_device(root: Path, pci: str, rail: int) -> None:
    device = (root / "sys/bus/pci/devices" / pci).resolve() / f"infiniband/rail{rail}"
    position = h100.RAILS.index(pci)
    texts = {"node_guid": read_guid(position), "fw_ver": FIRMWARE, "hca_type": "MT4129", "board_id": "MT_0000000838"}
    texts |= {"ports/1/link_layer": "Ethernet", "ports/1/rate": "400 Gb/sec (4X NDR)", "ports/1/state": "4: ACTIVE"}
    texts |= {f"ports/1/{kind}/{name}": str(7**20 + rail) for kind, names in _COUNTERS.items() for name in names}
    for number in range(16):
        texts[f"ports/1/gids/{number}"] = f"fe80:0000:0000:0000:0000:0000:0000:{number:04x}"
        texts[f"ports/1/gid_attrs/types/{number}"] = "RoCE v2"
    for path, text in texts.items():
        (device / path).parent.mkdir(parents=True, exist_ok=True)
        (device / path).write_text(f"{text}\n")
    (device / "device").symlink_to(f"../../../{pci}")
    link = root / "sys/class/infiniband" / device.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(Path("../..", *device.relative_to(root).parts[1:]))
