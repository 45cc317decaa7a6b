"""What checks of several steps ask of a snapshot."""

from __future__ import annotations

import pytest

from tests.doctor.host.sound_metal import BUSES, CPUINFO, DMESG, GPUS, NIC, combine, file, link, metal, output
from trackbed.doctor import hardware


def test_the_way_up_from_a_function_is_its_bridges_nearest_first() -> None:
    assert hardware.list_bridges(metal(), NIC) == ["0000:57:00.0", "0000:56:00.0", "0000:55:01.0"]
    assert hardware.find_root_bus(metal(), NIC) == "0000:55"


def test_a_function_on_a_root_bus_has_no_bridge() -> None:
    assert hardware.list_bridges(metal(), "0000:55:02.0") == []
    assert hardware.find_root_bus(metal(), "0000:55:02.0") == "0000:55"


def test_a_tree_that_leads_in_a_circle_ends() -> None:
    circle = link(f"{BUSES}/0000:56/device", "../../../0000:57:00.0")(metal())
    assert hardware.list_bridges(circle, NIC) == ["0000:57:00.0", "0000:56:00.0"]


def test_gpus_come_in_the_order_of_the_bus() -> None:
    assert hardware.list_accelerators(metal()) == list(GPUS)


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
    host = file("/proc/cpuinfo", text)(metal())
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
    assert hardware.describe_log_reach(log) == description


def test_why_the_log_cannot_be_read_is_said() -> None:
    denied = output(("dmesg",), "dmesg: read kernel buffer failed: Operation not permitted\n", 1)(metal())
    assert hardware.read_kernel_log(denied) is None
    assert "Operation not permitted" in hardware.describe_log_error(denied)
    assert hardware.describe_log_error(output(("dmesg",), None)(metal())) == "dmesg is not installed"


def test_a_failed_probe_of_mlx5_is_still_mlx5_s() -> None:
    unbound = link(f"/sys/bus/pci/devices/{NIC}/driver", None)
    assert hardware.uses_mlx5(unbound(metal()), NIC)
    assert not hardware.uses_mlx5(combine(unbound, output(("dmesg",), ""))(metal()), NIC)
