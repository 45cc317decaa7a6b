"""Each fault of step firmware, put into a sound server, is what doctor names first; the sound server has none."""

from __future__ import annotations

import json

import pytest

from tests.doctor.host.sound_metal import (
    CPUINFO,
    DEVICES,
    NIC,
    NICS,
    Change,
    append_log,
    build_config,
    build_metal,
    build_metal_view,
    build_nic_config,
    combine,
    find_first_fault,
    list_findings,
    list_verdicts,
    name_metal_view,
    replace_file,
    replace_link,
    replace_output,
)
from trackbed.doctor.diagnosis import diagnose_nodes

PCI = f"{DEVICES}/{NIC}"
MLXCONFIG = ("mlxconfig", "-d", NIC, "-e", "q")
QUERY = """
Device #1:
----------

Device type:        ConnectX7
Name:               MCX75310AAS-NEA_Ax
Description:        NVIDIA ConnectX-7 HHHL Adapter card, 400GbE / NDR IB
Device:             0000:58:00.0

Configurations:                                          Default             Current             Next Boot
*       NUM_OF_VFS                                  0                    {vfs}                   8
        SRIOV_EN                                    False(0)             {sriov}             True(1)
        LINK_TYPE_P1                                IB(1)                ETH(2)              ETH(2)
        INTERNAL_CPU_OFFLOAD_ENGINE                 ENABLED(0)           {dpu}              {dpu}
The '*' shows parameters with next value different from default/current value.
"""
"""mlxconfig -e q, as MFT 4.26 lays it out."""


def set_flash(vfs: int = 8, sriov: str = "True(1)", dpu: str = "DISABLED(1)") -> Change:
    return replace_output(MLXCONFIG, QUERY.format(vfs=vfs, sriov=sriov, dpu=dpu))


def set_devlink(arguments: str, value: object) -> Change:
    return replace_output(("devlink", "-j", *arguments.split()), json.dumps(value))


def set_roce(*, on: bool) -> Change:
    values = [{"cmode": "driverinit", "value": on}]
    document = {"param": {f"pci/{NIC}": [{"name": "enable_roce", "type": "generic", "values": values}]}}
    return set_devlink("dev param show", document)


def set_health(state: str) -> Change:
    document = {"health": {f"pci/{NIC}": [{"reporter": "fw_fatal", "state": state, "error": 1, "recover": 0}]}}
    return set_devlink("health show", document)


FAULTS: list[tuple[str, str, Change]] = [
    (
        "fw-interface-revision-mismatch",
        "too far apart",
        combine(
            replace_link(f"{PCI}/driver", None),
            append_log(f"mlx5_core {NIC}: mlx5_cmd_check:1021: Driver cmdif rev(5) differs from firmware's(6)"),
        ),
    ),
    (
        "fw-interface-revision-mismatch",
        "does not come up",
        append_log(f"mlx5_core {NIC}: Firmware over 120000 MS in pre-initializing state, aborting"),
    ),
    (
        "fw-health-compromised",
        "the driver gave up",
        append_log(f"mlx5_core {NIC}: poll_health:825:(pid 0): device's health compromised - reached miss count"),
    ),
    (
        "fw-health-compromised",
        "a syndrome",
        append_log(f"mlx5_core {NIC}: print_health_info:433:(pid 0): synd 0x7: irisc not responding"),
    ),
    ("fw-health-compromised", "devlink knows", set_health("error")),
    (
        "fw-command-timeout",
        "no answer",
        append_log(
            f"mlx5_core {NIC}: wait_func:1199:(pid 311): CREATE_MKEY(0x200) timeout. "
            "Will cause a leak of a command resource"
        ),
    ),
    (
        "fw-bluefield-dpu-mode",
        "BlueField-3",
        combine(replace_file(f"{PCI}/device", "0xa2dc\n"), set_flash(dpu="ENABLED(0)")),
    ),
    ("fw-link-type-wrong", "the interface", replace_file(f"{PCI}/net/rail1/type", "32\n")),
    (
        "fw-link-type-wrong",
        "the RDMA device",
        replace_file(f"{PCI}/infiniband/rail1/ports/1/link_layer", "InfiniBand\n"),
    ),
    ("fw-sriov-disabled", "no file", replace_file(f"{PCI}/sriov_totalvfs", None)),
    ("fw-sriov-disabled", "none offered", replace_file(f"{PCI}/sriov_totalvfs", "0\n")),
    ("fw-sriov-disabled", "off in the flash", set_flash(sriov="False(0)")),
    ("fw-num-of-vfs-too-small", "half of them", replace_file(f"{PCI}/sriov_totalvfs", "4\n")),
    ("fw-roce-disabled-by-devlink", "off", set_roce(on=False)),
    ("fw-config-pending", "waits for a reset", set_flash(vfs=4)),
    ("fw-version-mixed", "older than the rest", replace_file(f"{PCI}/infiniband/rail1/fw_ver", "28.36.1010\n")),
    ("fw-over-temperature", "above its limit", replace_file(f"{PCI}/hwmon/hwmon1/temp1_input", "106000\n")),
    (
        "fw-over-temperature",
        "the driver says so",
        append_log(f"mlx5_core {NIC}: temp_warn:166:(pid 0): High temperature on sensors with bit set 0x1 0x0"),
    ),
    ("fw-max-read-request-small", "as at reset", replace_file(f"{PCI}/config", build_nic_config("3029"))),
    ("fw-relaxed-ordering-off", "the bit is off", replace_file(f"{PCI}/config", build_nic_config("2059"))),
    (
        "fw-ats-off-in-vm",
        "disabled",
        combine(
            replace_file("/proc/cpuinfo", CPUINFO.replace("pdpe1gb", "pdpe1gb hypervisor")),
            replace_file(f"{PCI}/config", build_nic_config(ats="0000")),
        ),
    ),
]


@pytest.mark.parametrize(("fault_id", "change"), [pytest.param(f, c, id=f"{f}: {why}") for f, why, c in FAULTS])
def test_a_fault_is_named_first(fault_id: str, change: Change) -> None:
    broken = change(build_metal())
    assert find_first_fault(broken) == fault_id
    worst = [
        finding for finding in list_findings(broken) if finding.id == fault_id and finding.verdict in {"warn", "fail"}
    ]
    assert [finding.rail for finding in worst] == [1]
    assert worst[0].evidence


def test_a_sound_server_passes_every_check() -> None:
    sound = combine(set_flash(), set_roce(on=True), set_health("healthy"))(build_metal())
    findings = list_findings(sound, "firmware")
    assert {finding.verdict for finding in findings} == {"pass"}
    assert len({finding.id for finding in findings}) == 12, "no BlueField, no virtual machine"


def test_a_server_without_tools_is_judged_by_sysfs_and_passes() -> None:
    assert {finding.verdict for finding in list_findings(build_metal(), "firmware")} == {"pass"}


def test_a_virtual_machine_with_ats_passes_and_its_registers_are_not_judged() -> None:
    machine = replace_file("/proc/cpuinfo", CPUINFO.replace("pdpe1gb", "pdpe1gb hypervisor"))(build_metal())
    assert list_verdicts(machine, "fw-ats-off-in-vm") == {"pass"}
    assert list_verdicts(machine, "fw-max-read-request-small") == set()


def test_another_vendor_s_nic_is_not_judged_by_nvidia_s_rules() -> None:
    change = combine(
        *(replace_file(f"{DEVICES}/{nic}/vendor", "0x8086\n") for nic in NICS),
        *(replace_link(f"{DEVICES}/{nic}/driver", "../../../../bus/pci/drivers/ice") for nic in NICS),
        replace_output(("dmesg",), "[    0.000000] Linux version 6.8.0\n"),
        replace_file(f"{PCI}/config", build_nic_config("0000")),
    )
    ids = {finding.id for finding in list_findings(change(build_metal()), "firmware")}
    assert ids == {
        "fw-link-type-wrong",
        "fw-sriov-disabled",
        "fw-num-of-vfs-too-small",
        "fw-version-mixed",
        "fw-over-temperature",
    }


def test_versions_are_compared_with_other_nodes_too() -> None:
    old = combine(
        *(replace_file(f"{DEVICES}/{nic}/infiniband/rail{n}/fw_ver", "28.36.1010\n") for n, nic in enumerate(NICS))
    )
    others = (name_metal_view("n1"), name_metal_view("n2"))
    findings = diagnose_nodes([build_metal_view(old(build_metal())), *others]).findings
    (mixed,) = [finding for finding in findings if finding.id == "fw-version-mixed" and finding.verdict == "warn"]
    assert mixed.evidence == (
        "firmware of NIC 0x15b3:0x1021 28.36.1010 at n0 rail 0, 28.39.1002 at n1 rail 0 and 4 of 6 ports"
    )
    assert [str(end) for end in mixed.ends] == ["n0 rail 0", "n0 rail 1", "n1 rail 0"]


def test_registers_that_only_root_may_read_are_unknown() -> None:
    hidden = combine(*(replace_file(f"{DEVICES}/{nic}/config", build_config()[:64]) for nic in NICS))(build_metal())
    assert list_verdicts(hidden, "fw-max-read-request-small") == {"unknown"}
    assert list_verdicts(hidden, "fw-relaxed-ordering-off") == {"unknown"}


def test_a_log_that_nobody_may_read_is_told_once_for_each_fault() -> None:
    denied = replace_output(("dmesg",), "dmesg: read kernel buffer failed: Operation not permitted\n", 1)(build_metal())
    findings = [finding for finding in list_findings(denied, "firmware") if finding.verdict == "unknown"]
    assert {(finding.id, finding.rail) for finding in findings} == {
        ("fw-interface-revision-mismatch", None),
        ("fw-health-compromised", None),
        ("fw-command-timeout", None),
        ("fw-over-temperature", 0),
        ("fw-over-temperature", 1),
    }
    assert "Operation not permitted" in findings[0].evidence


@pytest.mark.parametrize("text", ["", "[]", '{"param": 7}', '{"param": {"pci/0000:58:00.0": [{}]}}', "null", "x"])
def test_strange_words_of_devlink_say_nothing(text: str) -> None:
    strange = combine(
        replace_output(("devlink", "-j", "dev", "param", "show"), text),
        replace_output(("devlink", "-j", "health", "show"), text),
    )(build_metal())
    assert {finding.verdict for finding in list_findings(strange, "firmware")} == {"pass"}
    assert list_verdicts(strange, "fw-roce-disabled-by-devlink") == set()
