"""Faults of the step cmdline, injected in an emulated server that was booted with the planned arguments."""

from pathlib import Path

from trackbed_lab.vm.faults.fault import FaultError, FaultyServer, VmFault
from trackbed_lab.vm.faults.helpers import cover_file, locate_device, uncover_file

_CMDLINE = "/proc/cmdline"
_ISOLATED = "/sys/devices/system/cpu/isolated"


def _drop_arguments(server: FaultyServer) -> None:
    """Hide the planned arguments, as if the boot loader's configuration lacked them."""
    arguments = Path(_CMDLINE).read_text().split()
    planned = ("hugepages", "default_hugepagesz", "isolcpus", "nohz_full", "rcu_nocbs")
    cover_file(
        server, _CMDLINE, " ".join(argument for argument in arguments if not argument.startswith(planned)) + "\n"
    )


def _show_arguments(server: FaultyServer) -> None:
    uncover_file(server, _CMDLINE)


def _report_translation(server: FaultyServer) -> None:
    cover_file(server, locate_device(server) / "iommu_group/type", "DMA-FQ\n")


def _report_identity(server: FaultyServer) -> None:
    uncover_file(server, locate_device(server) / "iommu_group/type")


def _find_hugepages(server: FaultyServer) -> tuple[str, int]:
    """Return the sysfs folder name and the count of the first planned page size. Raises FaultError."""
    kernel = server.node.common.kernel
    if kernel is None or not kernel.hugepages:
        raise FaultError("the plan has no huge pages: kernel.hugepages of the Fabric")
    size_kib, count = kernel.hugepages[0]
    return f"hugepages-{size_kib}kB", count


def _free_hugepages(server: FaultyServer) -> None:
    size, _ = _find_hugepages(server)
    server.write_file(f"/sys/kernel/mm/hugepages/{size}/nr_hugepages", "0")


def _move_hugepages(server: FaultyServer) -> None:
    """Move the huge pages to the first NUMA node; allocating before freeing keeps the total sufficient."""
    size, count = _find_hugepages(server)
    server.write_file(f"/sys/devices/system/node/node0/hugepages/{size}/nr_hugepages", str(count))
    server.write_file(f"/sys/devices/system/node/node1/hugepages/{size}/nr_hugepages", "0")


def _report_isolated_cpu(server: FaultyServer) -> None:
    cover_file(server, _ISOLATED, "1\n")


def _hide_isolated_cpu(server: FaultyServer) -> None:
    uncover_file(server, _ISOLATED)


FAULTS: tuple[VmFault, ...] = (
    VmFault("cmdline-not-applied", _drop_arguments, _show_arguments),
    VmFault("cmdline-iommu-translated", _report_translation, _report_identity),
    VmFault("cmdline-hugepages-short", _free_hugepages),
    VmFault("cmdline-hugepages-one-node", _move_hugepages),
    VmFault("cmdline-isolcpus-under-pods", _report_isolated_cpu, _hide_isolated_cpu),
)
