"""ACS on the bridges between NIC and GPU: turned off now, at each boot, and given back."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.host.places import Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import grow, with_programs
from trackbed.host.kinds import file
from trackbed.host.setting import Setting
from trackbed.host.snapshot.pci import read_acs
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import apply, undo
from trackbed.host.transaction.compare import compare

PORTS = '["0000:12:00.0", null]'
ROOT, UPSTREAM, ABOVE_NIC, ABOVE_GPU = "0000:10:00.0", "0000:11:00.0", "0000:11:01.0", "0000:11:02.0"
NIC, GPU = "0000:12:00.0", "0000:13:00.0"
TREE = {
    ROOT: ROOT,
    UPSTREAM: f"{ROOT}/{UPSTREAM}",
    ABOVE_NIC: f"{ROOT}/{UPSTREAM}/{ABOVE_NIC}",
    ABOVE_GPU: f"{ROOT}/{UPSTREAM}/{ABOVE_GPU}",
    NIC: f"{ROOT}/{UPSTREAM}/{ABOVE_NIC}/{NIC}",
    GPU: f"{ROOT}/{UPSTREAM}/{ABOVE_GPU}/{GPU}",
}
"""A PCIe switch with a NIC and a GPU."""
SETPCI = (pytest.mark.needs("setpci"), pytest.mark.may_skip("pciutils is a package of its own"))


def wanted(acs: str = "disabled") -> tuple[Setting, ...]:
    return iter_settings(node_plan(P2P, PORTS, spec=f"  bios: {{acs: {acs}}}\n"), {"acs"})


def acs_config(control: int) -> bytes:
    """The configuration space of a bridge with ACS control."""
    config = bytearray(4096)
    config[0:4], config[6], config[0x34], config[0x40] = bytes.fromhex("00108610"), 0x10, 0x40, 0x10
    config[0x100:0x108] = bytes.fromhex("0d0001005f00") + control.to_bytes(2, "little")
    return bytes(config)


def control_of(root: Path, bridge: str) -> int | None:
    return read_acs((root / f"sys/bus/pci/devices/{bridge}/config").read_bytes())


@pytest.fixture
def switch_host(place: Host) -> tuple[Host, list[str]]:
    """A host whose NIC and GPU are below one switch, and a setpci that does what it is asked."""
    root = place.machine.root
    grow(root, {"/usr/lib/systemd/system/multi-user.target": ""})
    for pci, path in TREE.items():
        folder = root / "sys/devices/pci0000:10" / path
        folder.mkdir(parents=True, exist_ok=True)
        ids = {NIC: ("0x15b3", "0x1021", "0x020000"), GPU: ("0x10de", "0x2330", "0x030200")}
        vendor, device, pci_class = ids.get(pci, ("0x1000", "0xc030", "0x060400"))
        for name, value in (("vendor", vendor), ("device", device), ("class", pci_class)):
            (folder / name).write_text(f"{value}\n")
        (folder / "config").write_bytes(acs_config(0x1D))
        link = root / f"sys/bus/pci/devices/{pci}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)

    def setpci(argv: Sequence[str]) -> None:
        _, bridge, assignment = argv
        value, mask = (int(part, 16) for part in assignment.removeprefix("ECAP_ACS+0x6.w=").split(":"))
        config = root / f"sys/bus/pci/devices/{bridge}/config"
        config.write_bytes(acs_config((read_acs(config.read_bytes()) or 0) & ~mask | value))

    host, runner = with_programs(place, setpci=setpci)
    return host, runner.ran


def test_redirects_between_nic_and_gpu_are_turned_off_and_given_back(switch_host: tuple[Host, list[str]]) -> None:
    host, ran = switch_host
    (change, *_) = compare(host.machine, wanted()).changes
    assert change.have == f"{ABOVE_NIC}=0x001d {ABOVE_GPU}=0x001d"
    apply(host.machine, wanted(), host.records)
    assert ran == [f"setpci -s {bridge} ECAP_ACS+0x6.w=0000:001c" for bridge in (ABOVE_NIC, ABOVE_GPU)]
    controls = {bridge: control_of(host.machine.root, bridge) for bridge in (ROOT, UPSTREAM, ABOVE_NIC, ABOVE_GPU)}
    assert controls == {ROOT: 0x1D, UPSTREAM: 0x1D, ABOVE_NIC: 0x01, ABOVE_GPU: 0x01}
    assert compare(host.machine, wanted()).changes == ()
    undo(host.machine, host.records)
    assert {control_of(host.machine.root, bridge) for bridge in controls} == {0x1D}
    assert not host.machine.locate(file.ACS_UNIT).exists()


@pytest.mark.parametrize("acs", ["leave", "enabled"])
def test_acs_is_left_alone_unless_the_fabric_turns_it_off(acs: str) -> None:
    assert wanted(acs) == ()


def test_in_lockdown_the_kernel_argument_is_advised(switch_host: tuple[Host, list[str]]) -> None:
    host, ran = switch_host
    grow(host.machine.root, {"/sys/kernel/security/lockdown": "none [integrity] confidentiality\n"})
    (left, *_) = apply(host.machine, wanted(), host.records).remaining.changes
    assert f"pci=disable_acs_redir={ABOVE_NIC};{ABOVE_GPU} into kernel.arguments" in left.advice
    assert ran == []


def test_connectx8_whose_gpu_traffic_has_its_own_function_is_left_alone(switch_host: tuple[Host, list[str]]) -> None:
    host, _ = switch_host
    grow(host.machine.root, {f"/sys/bus/pci/devices/{NIC}/device": "0x1023\n"})
    assert [change.subject for change in compare(host.machine, wanted()).changes if change.rail is not None] == []


@pytest.mark.parametrize("program", ["a recorder", pytest.param("setpci", marks=SETPCI)])
def test_the_script_of_each_boot_clears_the_same_bridges(switch_host: tuple[Host, list[str]], program: str) -> None:
    """With setpci of pciutils, where it is installed: it reads and writes a tree of files like sysfs."""
    host, _ = switch_host
    root = host.machine.root
    real = shutil.which("setpci")
    grow(root, {f"/sys/bus/pci/devices/{pci}/{name}": "0\n" for pci in TREE for name in ("irq", "resource")})
    run = f'exec {real} -O sysfs.path={root}/sys/bus/pci "$@"' if program == "setpci" else f'echo "$@" >>{root}/ran'
    grow(root, {"/bin/setpci": f"#!/bin/sh\n{run}\n"})
    (root / "bin/setpci").chmod(0o755)
    script = next(
        setting.want.content
        for setting in wanted()
        if isinstance(setting.want, file.Want) and setting.want.path == file.ACS_SCRIPT
    )
    done = subprocess.run(
        ["sh", "-eu", "-c", script.replace("=/sys/", f"={root}/sys/")],
        env={"PATH": f"{root}/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    if program == "setpci":
        assert [control_of(root, bridge) for bridge in (UPSTREAM, ABOVE_NIC, ABOVE_GPU)] == [0x1D, 0x01, 0x01]
    else:
        writes = [line for line in (root / "ran").read_text().splitlines() if "=" in line]
        assert writes == [f"-s {bridge} ECAP_ACS+0x6.w=0000:001c" for bridge in (ABOVE_NIC, ABOVE_GPU)]
