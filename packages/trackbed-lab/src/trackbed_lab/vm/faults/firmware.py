"""Faults of step firmware, made in an emulated server: in the words of mlx5_core, as its NICs' firmware has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault
from trackbed_lab.vm.faults.ways import clear_kernel_log, cover, locate_device, uncover, write_kernel_log

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer


def _says(server: FaultyServer, text: str) -> None:
    write_kernel_log(f"mlx5_core {server.port.pci}: {text}")


def _too_far(server: FaultyServer) -> None:
    _says(server, "Driver cmdif rev(5) differs from firmware's(6)")


def _hung(server: FaultyServer) -> None:
    _says(server, "device's health compromised - reached miss count")


def _silent(server: FaultyServer) -> None:
    _says(server, "CREATE_MKEY(0x200) timeout. Will cause a leak of a command resource")


def _hot(server: FaultyServer) -> None:
    _says(server, "High temperature on sensors with bit set 0x1 0x0")


def _offers(server: FaultyServer, count: int) -> None:
    cover(server, locate_device(server) / "sriov_totalvfs", f"{count}\n")


def _none(server: FaultyServer) -> None:
    _offers(server, 0)


def _too_few(server: FaultyServer) -> None:
    _offers(server, max(1, server.node.common.vfs - 1))


def _all(server: FaultyServer) -> None:
    uncover(server, locate_device(server) / "sriov_totalvfs")


FAULTS: tuple[VmFault, ...] = (
    VmFault("fw-interface-revision-mismatch", _too_far, clear_kernel_log),
    VmFault("fw-health-compromised", _hung, clear_kernel_log),
    VmFault("fw-command-timeout", _silent, clear_kernel_log),
    VmFault("fw-sriov-disabled", _none, _all),
    VmFault("fw-num-of-vfs-too-small", _too_few, _all),
    VmFault("fw-over-temperature", _hot, clear_kernel_log),
)
