"""A folder that looks like /sys to those who ask it for ports, VFs and RDMA devices."""

from __future__ import annotations

from pathlib import Path


class Sysfs:
    """One such folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def port(self, netdev: str, *, rdma: str | None = None, soft: str | None = None) -> Path:
        """A port, with an RDMA device of hardware or of software."""
        device = self.root / "class/net" / netdev / "device"
        device.mkdir(parents=True, exist_ok=True)
        if rdma:
            (device / "infiniband" / rdma).mkdir(parents=True)
        if soft:
            folder = self.root / "class/infiniband" / soft
            folder.mkdir(parents=True)
            (folder / "parent").write_text(f"{netdev}\n")
        return device

    def vf(self, netdev: str, number: int, *, interface: str | None = None, rdma: str | None = None) -> Path:
        """A VF of a port; without interface it is in a namespace, or without driver."""
        device = self.port(netdev) / f"virtfn{number}"
        (device / "net").mkdir(parents=True, exist_ok=True)
        if interface:
            (device / "net" / interface).mkdir()
        if rdma:
            (device / "infiniband" / rdma).mkdir(parents=True)
        return device
