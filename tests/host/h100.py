"""A server with 8 H100 and 8 ConnectX-7 as its configuration space shows it: a Dell PowerEdge XE9680 in operation.

Values (no text) of `lspci -vvv` in leptonai/gpud at 4a8de33a, pkg/pci/testdata/lspci-vvv; test_h100.py of doctor holds
them against that file where it is at hand. Eight root ports alike, each with a switch (PEX890xx) of its own:

    root port R:01.0 -- upstream port R+1 -- downstream ports R+2:00 -- R+3 NVMe
                                                              :01 -- R+4 GPU
                                                              :02 -- R+5 ConnectX-7
                                                              :03 -- R+6 ConnectX-6 Dx, below two of them
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT_BUSES = {0x15: 0, 0x37: 0, 0x48: 0, 0x59: 0, 0x97: 1, 0xB7: 1, 0xC7: 1, 0xD7: 1}
"""Bus of a root port -> its NUMA node."""
WITH_CONNECTX6 = (0x15, 0x97)
RAILS = tuple(f"0000:{bus + 5:02x}:00.0" for bus in ROOT_BUSES)
GPUS = tuple(f"0000:{bus + 4:02x}:00.0" for bus in ROOT_BUSES)

_GEN5, _GEN4, _GEN3, _GEN2 = 5, 4, 3, 2
"""Codes of 32, 16, 8 and 5 GT/s in the registers of a link."""
_SPEEDS = {
    1: "2.5 GT/s PCIe",
    _GEN5: "32.0 GT/s PCIe",
    _GEN4: "16.0 GT/s PCIe",
    _GEN3: "8.0 GT/s PCIe",
    _GEN2: "5.0 GT/s PCIe",
}
_REDIRECTING = 0x1D
"""ACS control of the switch for two boot disks: redirects, and is between no rail and its GPU."""
_EXPRESS_AT, _ACS_AT = 0x60, 0x220


class Function(NamedTuple):
    """A PCI function; `path` begins with the host bridge."""

    path: tuple[str, ...]
    kind: str
    """Class: 0200 Ethernet, 0302 3D controller, 0604 bridge, 0108 NVMe."""
    id: str
    numa: int
    speed: int = _GEN5
    """As in the registers of a link; the width is the negotiated one."""
    width: int = 16
    max_speed: int = _GEN5
    read_request: int = 4096
    relaxed: bool = True
    acs: int | None = None
    below: str = ""
    """The bus below a bridge."""
    driver: str = ""
    label: str = ""

    @property
    def pci(self) -> str:
        """Return the address."""
        return self.path[-1]


def list_functions() -> list[Function]:
    """Return the functions of the host on which something depends."""
    onboard = ("pci0000:00", "0000:00:0c.0")
    functions = [Function(onboard, "0604", "8086:1bbc", 0, _GEN2, 1, _GEN3, 512, relaxed=False, acs=1, below="0000:01")]
    functions += [
        Function(
            (*onboard, f"0000:01:00.{port}"),
            "0200",
            "14e4:165f",
            0,
            _GEN2,
            1,
            _GEN2,
            512,
            relaxed=False,
            driver="tg3",
            label=f"Embedded NIC {port + 1}",
        )
        for port in (0, 1)
    ]
    disks = ("pci0000:80", "0000:80:01.0", "0000:81:00.0")
    functions.append(
        Function(disks[:2], "0604", "8086:352a", 1, _GEN4, 2, _GEN4, relaxed=False, acs=0, below="0000:81")
    )
    functions.append(
        Function(disks, "0604", "11f8:4128", 1, _GEN4, 2, _GEN4, 128, relaxed=False, acs=0, below="0000:82")
    )
    functions.append(
        Function(
            (*disks, "0000:82:00.0"),
            "0604",
            "11f8:4128",
            1,
            _GEN4,
            2,
            _GEN4,
            128,
            relaxed=False,
            acs=_REDIRECTING,
            below="0000:83",
        )
    )
    for bus, numa in ROOT_BUSES.items():
        functions += _list_group(bus, numa)
    return functions


def _list_group(bus: int, numa: int) -> list[Function]:
    """Return what hangs below one root port."""
    root = (f"pci0000:{bus:02x}", f"0000:{bus:02x}:01.0")
    switch = (*root, f"0000:{bus + 1:02x}:00.0")
    ends = [
        ("0108", "144d:a824", _GEN4, 4, "nvme"),
        ("0302", "10de:2330", _GEN5, 16, "nvidia"),
        ("0200", "15b3:1021", _GEN5, 16, "mlx5_core"),
    ]
    ends += [("0200", "15b3:101d", _GEN4, 16, "mlx5_core")] if bus in WITH_CONNECTX6 else []
    functions = [
        Function(root, "0604", "8086:352a", numa, relaxed=False, acs=0, below=f"0000:{bus + 1:02x}"),
        Function(switch, "0604", "1000:c030", numa, read_request=128, below=f"0000:{bus + 2:02x}"),
    ]
    for slot, (kind, ident, speed, width, driver) in enumerate(ends):
        port = (*switch, f"0000:{bus + 2:02x}:{slot:02x}.0")
        end = f"0000:{bus + 3 + slot:02x}:00"
        functions.append(
            Function(port, "0604", "1000:c030", numa, speed, width, read_request=128, acs=0, below=end[:7])
        )
        is_dual = ident == "15b3:101d"  # with two ports, and with ACS
        functions += [
            Function(
                (*port, f"{end}.{number}"),
                kind,
                ident,
                numa,
                speed,
                width,
                speed,
                acs=0 if is_dual else None,
                driver=driver,
            )
            for number in range(1 + is_dual)
        ]
    return functions


def build_config(function: Function) -> bytes:
    """Return a configuration space with the registers that doctor reads."""
    config = bytearray(4096)
    vendor, _, device = function.id.partition(":")
    config[:4] = int(vendor, 16).to_bytes(2, "little") + int(device, 16).to_bytes(2, "little")
    config[0x06], config[0x34], config[_EXPRESS_AT] = 0x10, _EXPRESS_AT, 0x10
    control = (function.relaxed << 4) | (1 << 5) | ((function.read_request // 128).bit_length() - 1) << 12
    for offset, value in {
        8: control,
        12: function.max_speed | function.width << 4,
        18: function.speed | function.width << 4,
    }.items():
        config[_EXPRESS_AT + offset : _EXPRESS_AT + offset + 2] = value.to_bytes(2, "little")
    head = 0x0001 | 1 << 16 | (0 if function.acs is None else _ACS_AT << 20)
    config[0x100:0x104] = head.to_bytes(4, "little")
    if function.acs is not None:
        config[_ACS_AT : _ACS_AT + 8] = (
            (0x000D | 1 << 16).to_bytes(4, "little") + bytes(2) + function.acs.to_bytes(2, "little")
        )
    return bytes(config)


def write_host(
    root: Path, functions: list[Function], files: dict[str, str] | None = None, configs: dict[str, bytes] | None = None
) -> Path:
    """Write the host as sysfs shows it below a root, with further files, and other configuration spaces by address."""
    for function in functions:
        _write_function(root, function, (configs or {}).get(function.pci) or build_config(function))
    texts = {
        "/proc/sys/kernel/hostname": "acme-train17.dc1.acme.corp",
        "/proc/cpuinfo": "vendor_id\t: GenuineIntel\nflags\t\t: fpu vme",
        "/proc/cmdline": "quiet",
        "/sys/devices/system/node/online": "0-1",
        "/sys/class/dmi/id/sys_vendor": "Dell Inc.",
        "/sys/class/dmi/id/product_name": "PowerEdge XE9680",
    } | (files or {})
    for path, text in texts.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")
    return root


def _write_function(root: Path, function: Function, config: bytes) -> None:
    folder = root.joinpath("sys/devices", *function.path)
    folder.mkdir(parents=True, exist_ok=True)
    vendor, _, device = function.id.partition(":")
    attributes = {
        "vendor": f"0x{vendor}",
        "device": f"0x{device}",
        "class": f"0x{function.kind}00",
        "numa_node": str(function.numa),
        "current_link_speed": _SPEEDS[function.speed],
        "max_link_speed": _SPEEDS[function.max_speed],
        "current_link_width": str(function.width),
        "max_link_width": str(function.width),
    }
    if function.label:
        attributes["label"] = function.label
    for name, value in attributes.items():
        (folder / name).write_text(f"{value}\n")
    (folder / "config").write_bytes(config)
    _link(root, f"sys/bus/pci/devices/{function.pci}", folder)
    if function.below:
        (folder / "pci_bus" / function.below).mkdir(parents=True)
        (folder / "pci_bus" / function.below / "device").symlink_to(f"../../../{function.pci}")
        _link(root, f"sys/class/pci_bus/{function.below}", folder / "pci_bus" / function.below)
    if function.driver:
        (folder / "driver").symlink_to(f"/sys/bus/pci/drivers/{function.driver}")
    if function.kind == "0200":
        _write_interface(root, function, folder)


def _write_interface(root: Path, function: Function, folder: Path) -> None:
    """Write the interface of a NIC, with a MAC of its maker that tells which NIC it is."""
    number = int(function.pci[5:7], 16) << 8 | int(function.pci[-1])
    name = f"enp{int(function.pci[5:7], 16)}s0f{function.pci[-1]}"
    interface = folder / "net" / name
    interface.mkdir(parents=True)
    (interface / "address").write_text(f"b8:3f:d2:{number.to_bytes(3, 'big').hex(':')}\n")
    (interface / "device").symlink_to(f"../../../{function.pci}")
    _link(root, f"sys/class/net/{name}", interface)


def _link(root: Path, place: str, target: Path) -> None:
    link = root / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(Path(*[".."] * (len(link.relative_to(root).parts) - 1)) / target.relative_to(root))
