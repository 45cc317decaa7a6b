"""Faults of the step firmware, injected in an emulated server as log lines of mlx5_core; its NICs have no firmware."""

from trackbed_lab.vm.faults.fault import FaultyServer, VmFault
from trackbed_lab.vm.faults.helpers import clear_kernel_log, cover_file, locate_device, uncover_file, write_kernel_log


def _write_driver_log(server: FaultyServer, message: str) -> None:
    write_kernel_log(f"mlx5_core {server.port.pci}: {message}")


def _log_revision_mismatch(server: FaultyServer) -> None:
    _write_driver_log(server, "Driver cmdif rev(5) differs from firmware's(6)")


def _log_health_compromised(server: FaultyServer) -> None:
    _write_driver_log(server, "device's health compromised - reached miss count")


def _log_command_timeout(server: FaultyServer) -> None:
    _write_driver_log(server, "CREATE_MKEY(0x200) timeout. Will cause a leak of a command resource")


def _log_high_temperature(server: FaultyServer) -> None:
    _write_driver_log(server, "High temperature on sensors with bit set 0x1 0x0")


def _report_total_vfs(server: FaultyServer, count: int) -> None:
    cover_file(server, locate_device(server) / "sriov_totalvfs", f"{count}\n")


def _report_no_vfs(server: FaultyServer) -> None:
    _report_total_vfs(server, 0)


def _report_too_few_vfs(server: FaultyServer) -> None:
    _report_total_vfs(server, max(1, server.node.common.vfs - 1))


def _report_all_vfs(server: FaultyServer) -> None:
    uncover_file(server, locate_device(server) / "sriov_totalvfs")


FAULTS: tuple[VmFault, ...] = (
    VmFault("fw-interface-revision-mismatch", _log_revision_mismatch, clear_kernel_log),
    VmFault("fw-health-compromised", _log_health_compromised, clear_kernel_log),
    VmFault("fw-command-timeout", _log_command_timeout, clear_kernel_log),
    VmFault("fw-sriov-disabled", _report_no_vfs, _report_all_vfs),
    VmFault("fw-num-of-vfs-too-small", _report_too_few_vfs, _report_all_vfs),
    VmFault("fw-over-temperature", _log_high_temperature, clear_kernel_log),
)
