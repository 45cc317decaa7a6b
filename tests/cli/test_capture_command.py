from __future__ import annotations

from pathlib import Path

from trackbed.cli.capture import build_wanted
from trackbed.host.machine import Machine
from trackbed.host.snapshot.take import list_ports

PORT, VIRTUAL = "0000:18:00.0", "0000:18:00.2"


def host(root: Path) -> Machine:
    """A port, a VF of it, a virtio NIC and one without a device."""
    devices, net = root / "sys/devices", root / "sys/class/net"
    net.mkdir(parents=True)
    for name, device in (("rail0", PORT), ("rail0v0", VIRTUAL), ("eth0", "virtio0"), ("lo", "")):
        (net / name).mkdir()
        if device:
            (devices / device).mkdir(parents=True)
            (net / name / "device").symlink_to(f"../../../devices/{device}")
    (devices / VIRTUAL / "physfn").symlink_to(f"../{PORT}")
    return Machine(root)


def test_programs_are_asked_about_every_port(tmp_path: Path) -> None:
    machine = host(tmp_path)
    assert list_ports(machine) == {"rail0": PORT}
    commands = build_wanted(machine).commands
    assert ("ethtool", "-S", "rail0") in commands
    assert any(PORT in argv for argv in commands)
    assert not any("{" in word or "*" in word for argv in commands for word in argv)


def test_files_are_asked_of_every_interface_and_function(tmp_path: Path) -> None:
    files = build_wanted(host(tmp_path)).files
    assert "/sys/class/net/*/speed" in files
    assert not any("{" in path for path in files)
