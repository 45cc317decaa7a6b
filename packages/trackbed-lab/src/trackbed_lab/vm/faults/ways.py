"""Ways to make a fault that several steps use.

An emulated server has no firmware that crashes and no NIC that overheats. What a driver would log of that is
written into the kernel's log, and what a file of the kernel would say is laid over it (mount(8), --bind): checks read
the same places as on a real server, and find there what they would find on a broken one.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from trackbed.host.machine import Machine
from trackbed.host.steps import settings
from trackbed.host.transaction import record
from trackbed.host.transaction.apply import apply
from trackbed_lab.vm.faults.fault import FaultError

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer

_COVERS = Path("/run/trackbed-lab/covers")
_PATIENCE_SECONDS = 30.0
_STEPS = {"rdma", "vfs", "names", "addresses", "routing", "qos"}
"""What hangs on a port's interface."""


def locate_device(server: FaultyServer) -> Path:
    """The port's function in sysfs."""
    pci = server.port.pci
    if pci is None:
        raise FaultError(f"the plan has no PCI address for {server.port.netdev}; name the ports by it")
    return Path("/sys/bus/pci/devices") / pci


def write_kernel_log(text: str) -> None:
    """Write a line into the kernel's log (Documentation/ABI/testing/dev-kmsg)."""
    Path("/dev/kmsg").write_text(f"{text}\n")


def clear_kernel_log(server: FaultyServer) -> None:
    """Empty the kernel's log: what stands there counts until the next boot."""
    server.run("dmesg", "--clear")
    server.restore()


def cover(server: FaultyServer, path: str | Path, text: str) -> None:
    """Lay a file with this text over a file of the kernel."""
    place = Path(path).resolve()
    _COVERS.mkdir(parents=True, exist_ok=True)
    above = _COVERS / str(place).strip("/").replace("/", "-")
    above.write_text(text)
    server.run("mount", "--bind", str(above), str(place))


def uncover(server: FaultyServer, path: str | Path) -> None:
    """Take the file away again."""
    server.run("umount", str(Path(path).resolve()))
    server.restore()


def configure_port(server: FaultyServer) -> None:
    """Wait until the port has an interface again, and give it what the plan says, its name included."""
    wait_for_interface(server)
    machine = Machine(Path("/"))
    apply(machine, settings(server.node, _STEPS), record.folder(machine))


def wait_for_interface(server: FaultyServer) -> None:
    """Wait until the driver has made an interface for the port, and udev has done with it."""
    end, place = time.monotonic() + _PATIENCE_SECONDS, locate_device(server) / "net"
    while not (place.is_dir() and any(place.iterdir())):
        if time.monotonic() > end:
            raise FaultError(f"{server.port.pci} has no interface again within {_PATIENCE_SECONDS:.0f} s")
        time.sleep(0.2)
    server.run("udevadm", "settle", "--timeout=20")
