"""Helpers to inject faults, shared by several steps.

An emulated server has no firmware that crashes and no NIC that overheats. The driver's log lines of such faults are
written to the kernel's log, and files of the kernel are covered by bind mounts (mount(8), --bind). Checks read the same
paths as on a real server, and find what they would find on a broken one.
"""

import time
from pathlib import Path

from trackbed.host.machine import Machine
from trackbed.host.steps import iter_settings
from trackbed.host.transaction import record
from trackbed.host.transaction.apply import apply
from trackbed_lab.vm.faults.fault import FaultError, FaultyServer

_COVERS = Path("/run/trackbed-lab/covers")
_INTERFACE_SECONDS = 30.0
_STEPS = {"rdma", "vfs", "names", "addresses", "routing", "qos"}
"""Steps whose settings are lost with a port's interface."""


def locate_device(server: FaultyServer) -> Path:
    """Return the sysfs folder of the port's PCI function. Raises FaultError."""
    pci = server.port.pci
    if pci is None:
        raise FaultError(f"the plan has no PCI address for {server.port.netdev}; name the ports by it")
    return Path("/sys/bus/pci/devices") / pci


def write_kernel_log(line: str) -> None:
    """Append a line to the kernel's log (Documentation/ABI/testing/dev-kmsg)."""
    Path("/dev/kmsg").write_text(f"{line}\n")


def clear_kernel_log(server: FaultyServer) -> None:
    """Empty the kernel's log, whose lines checks report until the next boot; restore files."""
    server.run("dmesg", "--clear")
    server.restore_saved_files()


def cover_file(server: FaultyServer, path: str | Path, text: str) -> None:
    """Cover a file of the kernel with a bind mount of a file that contains `text`."""
    target = Path(path).resolve()
    _COVERS.mkdir(parents=True, exist_ok=True)
    source = _COVERS / str(target).strip("/").replace("/", "-")
    source.write_text(text)
    server.run("mount", "--bind", str(source), str(target))


def uncover_file(server: FaultyServer, path: str | Path) -> None:
    """Remove the bind mount from a file; restore files."""
    server.run("umount", str(Path(path).resolve()))
    server.restore_saved_files()


def configure_port(server: FaultyServer) -> None:
    """Wait until the port has an interface again, then apply the plan to it, its name included."""
    wait_for_interface(server)
    machine = Machine(Path("/"))
    apply(machine, iter_settings(server.node, _STEPS), record.find_folder(machine))


def wait_for_interface(server: FaultyServer) -> None:
    """Wait until the driver has created an interface for the port, and udev has processed it. Raises FaultError."""
    deadline, folder = time.monotonic() + _INTERFACE_SECONDS, locate_device(server) / "net"
    while not (folder.is_dir() and any(folder.iterdir())):
        if time.monotonic() > deadline:
            raise FaultError(f"{server.port.pci} has no interface again within {_INTERFACE_SECONDS:.0f} s")
        time.sleep(0.2)
    server.run("udevadm", "settle", "--timeout=20")
