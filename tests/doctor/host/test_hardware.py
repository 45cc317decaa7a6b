"""Reads of a snapshot that several steps share."""

from __future__ import annotations

import pytest

from tests.doctor.host.sound_metal import (
    BUSES,
    CPUINFO,
    DMESG,
    GPUS,
    NIC,
    build_metal,
    combine,
    replace_file,
    replace_link,
    replace_output,
)
from trackbed.doctor import hardware
from trackbed.host.discover.wanted import KFD


def test_the_way_up_from_a_function_is_its_bridges_nearest_first() -> None:
    assert hardware.list_bridges(build_metal(), NIC) == ["0000:57:00.0", "0000:56:00.0", "0000:55:01.0"]
    assert hardware.find_root_bus(build_metal(), NIC) == "0000:55"


def test_a_function_on_a_root_bus_has_no_bridge() -> None:
    assert hardware.list_bridges(build_metal(), "0000:55:02.0") == []
    assert hardware.find_root_bus(build_metal(), "0000:55:02.0") == "0000:55"


def test_a_tree_that_leads_in_a_circle_ends() -> None:
    circle = replace_link(f"{BUSES}/0000:56/device", "../../../0000:57:00.0")(build_metal())
    assert hardware.list_bridges(circle, NIC) == ["0000:57:00.0", "0000:56:00.0"]


def test_gpus_come_in_the_order_of_the_bus() -> None:
    assert hardware.list_accelerators(build_metal()) == list(GPUS)


def test_gpus_of_amd_come_in_the_order_of_the_kernels_compute_topology() -> None:
    """A server with 8 MI250X: its first GPU is at 4e, after those at 0e to 19 (ROCm/rccl, topo_16p1h.xml)."""
    first, second = (f"simd_count 440\nlocation_id {int(pci[5:7], 16) << 8}\ndomain 0\n" for pci in reversed(GPUS))
    host = combine(replace_file(f"{KFD}/1/properties", first), replace_file(f"{KFD}/2/properties", second))(
        build_metal()
    )
    assert hardware.list_accelerators(host) == list(reversed(GPUS))


@pytest.mark.parametrize(
    ("text", "virtual", "x86"),
    [
        pytest.param(CPUINFO, False, True, id="bare metal"),
        pytest.param(CPUINFO.replace("fpu", "fpu hypervisor"), True, True, id="a virtual machine"),
        pytest.param("processor\t: 0\nCPU implementer\t: 0x41\nFeatures\t: fp asimd\n", False, False, id="Arm"),
        pytest.param(None, False, False, id="nothing to read"),
    ],
)
def test_the_cpu_says_whether_it_is_real(text: str | None, virtual: bool, x86: bool) -> None:
    host = replace_file("/proc/cpuinfo", text)(build_metal())
    assert (hardware.is_virtual(host), hardware.is_x86(host)) == (virtual, x86)


LOG = "[    1.000000] igb a: first\n[    2.000000] igb a: second\n[    3.000000] igb b: third"


def test_the_newest_line_of_the_log_is_told_without_its_time() -> None:
    assert hardware.find_log_line(LOG, r"igb a: \w+") == "igb a: second"
    assert hardware.find_log_line(LOG, "third") == "igb b: third"
    assert not hardware.find_log_line(LOG, "a: .*third"), "a pattern never spans two lines"


@pytest.mark.parametrize(
    ("log", "description"),
    [
        pytest.param(DMESG, "nothing logged since boot", id="whole"),
        pytest.param("[90000.123456] x\n", "nothing logged since 90000 s after boot", id="the first lines are lost"),
        pytest.param("", "nothing logged; the log was emptied", id="emptied"),
    ],
)
def test_how_far_back_a_log_goes_is_said(log: str, description: str) -> None:
    assert hardware.describe_log_coverage(log) == description


def test_why_the_log_cannot_be_read_is_said() -> None:
    denied = replace_output(("dmesg",), "dmesg: read kernel buffer failed: Operation not permitted\n", 1)(build_metal())
    assert hardware.read_kernel_log(denied) is None
    assert "Operation not permitted" in hardware.describe_log_error(denied)
    assert hardware.describe_log_error(replace_output(("dmesg",), None)(build_metal())) == "dmesg is not installed"


def test_a_failed_probe_of_mlx5_is_still_mlx5_s() -> None:
    unbound = replace_link(f"/sys/bus/pci/devices/{NIC}/driver", None)
    assert hardware.uses_mlx5(unbound(build_metal()), NIC)
    assert not hardware.uses_mlx5(combine(unbound, replace_output(("dmesg",), ""))(build_metal()), NIC)
