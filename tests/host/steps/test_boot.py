"""The boot unit and its script, which runs here on a captured tree."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.host.kinds.test_vfs import PCI, number, ports, vf, wanted
from tests.host.places import Host
from tests.host.trees import everything_below, grow
from trackbed.host.kinds import file
from trackbed.host.transaction.apply import apply, undo
from trackbed.host.transaction.compare import compare

SYSTEMD = {"/usr/lib/systemd/system/multi-user.target": ""}


@pytest.fixture
def host(place: Host) -> Host:
    return ports(place)


def test_the_boot_unit_is_written_where_systemd_is_and_taken_away_with_the_plan(host: Host) -> None:
    assert compare(host.machine, wanted(steps=frozenset({"qos"}))).changes == ()
    grow(host.machine.root, SYSTEMD)
    before = everything_below(host.machine.root)
    apply(host.machine, wanted(steps=frozenset({"qos"})), host.records)
    written = [
        path for path in (file.BOOT_SCRIPT, file.BOOT_UNIT, file.BOOT_WANTED) if host.machine.locate(path).is_file()
    ]
    assert written == [file.BOOT_SCRIPT, file.BOOT_UNIT, file.BOOT_WANTED]
    assert host.machine.locate(file.BOOT_SCRIPT).stat().st_mode & 0o777 == 0o755
    assert compare(host.machine, wanted(steps=frozenset({"qos"}))).changes == ()
    assert undo(host.machine, host.records) == ()
    assert everything_below(host.machine.root) == before


def test_the_unit_runs_before_kubelet_and_after_the_ports_have_their_names() -> None:
    unit = content(file.BOOT_UNIT)
    assert "Before=kubelet.service" in unit
    assert "sys-subsystem-net-devices-eth0.device sys-subsystem-net-devices-eth1.device" in unit


@pytest.mark.needs("systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    place = tmp_path / "trackbed-boot.service"
    place.write_text(content(file.BOOT_UNIT))
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(place)], capture_output=True, text=True, timeout=60, check=False
    )
    assert [line for line in ran.stderr.splitlines() if "trackbed-boot" in line] == []


def test_the_boot_script_makes_the_vfs(host: Host, tmp_path: Path) -> None:
    grow(host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/sriov_numvfs": "2"})
    ran = script(host, tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [number(host, pci) for pci in PCI] == ["4", "4"]


def test_the_boot_script_says_which_port_offers_no_vfs_and_goes_on(host: Host, tmp_path: Path) -> None:
    host.machine.locate(f"/sys/bus/pci/devices/{PCI[0]}/sriov_numvfs").unlink()
    ran = script(host, tmp_path)
    assert ran.returncode == 1
    assert f"{PCI[0]} offers no VFs" in ran.stderr
    assert number(host, PCI[1]) == "4"


SHOWN = "    vf 0     link/ether 02:00:00:00:00:11 brd ff:ff:ff:ff:ff:ff, spoof checking off, link-state auto, trust on"


def test_the_boot_script_guards_the_vfs_that_are_there(host: Host, tmp_path: Path) -> None:
    vf(host, "0000:18:00.2", netdev="eth0v0")
    grow(host.machine.root, {"/sys/devices/pci0000:00/0000:18:00.2/net/eth0v0/mtu": "1500\n"})
    grow(host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/sriov_drivers_autoprobe": "0\n"})
    grow(host.machine.root, {"/sys/class/net/eth0/mtu": "1500\n", "/sys/class/net/eth1/mtu": "9216\n"})
    ran = script(host, tmp_path, ip=f'[ "$1 $2" != "link show" ] || echo "{SHOWN}"')
    assert (ran.returncode, ran.stderr) == (0, "")
    assert heard(tmp_path) == [
        "udevadm settle --timeout=30",
        "ip link show dev eth0",
        "ip link set dev eth0 vf 0 trust off",
        "ip link set dev eth0 vf 0 spoofchk on",
        "ip link show dev eth1",
    ]
    assert host.machine.read("/sys/devices/pci0000:00/0000:18:00.2/net/eth0v0/mtu") == "9000"
    assert [host.machine.read(f"/sys/class/net/{port}/mtu") for port in ("eth0", "eth1")] == ["9000", "9216"]
    assert host.machine.read(f"/sys/bus/pci/devices/{PCI[0]}/sriov_drivers_autoprobe") == "1"


def test_the_boot_script_leaves_guards_alone_that_are_as_wanted(host: Host, tmp_path: Path) -> None:
    vf(host, "0000:18:00.2", netdev="eth0v0")
    sound = SHOWN.replace("checking off", "checking on").replace("trust on", "trust off")
    script(host, tmp_path, ip=f'[ "$1 $2" != "link show" ] || echo "{sound}"')
    assert [line for line in heard(tmp_path) if "link set" in line] == []


def test_the_boot_script_sets_no_switch_that_the_driver_does_not_have(host: Host, tmp_path: Path) -> None:
    vf(host, "0000:18:00.2", netdev="eth0v0")
    script(host, tmp_path, ip='echo "    vf 0     link/ether 02:00:00:00:00:11 brd ff:ff:ff:ff:ff:ff, link-state auto"')
    assert [line for line in heard(tmp_path) if "vf 0" in line] == []


ETS = """[ "$4" = eth0 ] || exit 1
case "$*" in
*prio-tc) echo "prio-tc 0:0 1:1 2:2 3:{own} 4:4 5:5 6:6 7:7" ;;
*ets-cap) echo "ets-cap {classes}" ;;
"apptrust show"*) echo "order: {order}" ;;
esac"""


SHARED = ["ets set dev eth0 tc-tsa all:strict 0:ets 1:ets tc-bw all:0 0:50 1:50 prio-tc all:0 6:2 3:1"]


@pytest.mark.parametrize(
    ("own", "classes", "order", "more"),
    [
        pytest.param(3, 8, "dscp pcp", [], id="all is as wanted"),
        pytest.param(3, 8, "pcp dscp", ["apptrust set dev eth0 order dscp"], id="another trust"),
        pytest.param(4, 8, "dscp", SHARED, id="a class that is shared"),
        pytest.param(4, 2, "dscp", [SHARED[0].replace("6:2", "6:0")], id="two classes"),
        pytest.param(4, 1, "dscp", [], id="one class"),
    ],
)
def test_the_boot_script_sets_dcb_where_the_driver_has_it(
    host: Host, own: int, classes: int, order: str, more: list[str]
) -> None:
    folder = host.machine.root.parent
    ran = script(host, folder, dcb=ETS.format(own=own, classes=classes, order=order))
    assert (ran.returncode, ran.stderr) == (0, "")
    sets = [line.removeprefix("dcb ") for line in heard(folder) if " set " in line or " replace " in line]
    assert sorted(sets) == sorted(
        ["app replace dev eth0 dscp-prio 26:3 48:6", "pfc set dev eth0 prio-pfc all:off 3:on", *more]
    )


def test_the_boot_script_asks_a_driver_without_dcb_once_for_each_port(host: Host, tmp_path: Path) -> None:
    script(host, tmp_path)
    asked = [line for line in (tmp_path / "heard").read_text().splitlines() if line.startswith("dcb ")]
    assert asked == ["dcb app show dev eth0", "dcb app show dev eth1"]


def test_the_boot_script_gives_rdma_cm_its_traffic_class(host: Host, tmp_path: Path) -> None:
    file = "/sys/kernel/config/rdma_cm/rail0/ports/1/default_roce_tos"
    grow(host.machine.root, {file: "0\n"})
    script(host, tmp_path)
    assert host.machine.read(file) == "106"


@pytest.mark.needs("dash")
def test_the_boot_script_is_sh_without_mistakes(tmp_path: Path) -> None:
    place = tmp_path / "boot.sh"
    place.write_text(content(file.BOOT_SCRIPT))
    ran = subprocess.run(["dash", "-n", str(place)], capture_output=True, text=True, timeout=30, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_shellcheck_finds_nothing_in_the_boot_script() -> None:
    program = Path(sys.prefix, "bin/shellcheck")
    text = content(file.BOOT_SCRIPT)
    ran = subprocess.run([program, "-"], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def script(host: Host, folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Run the boot script on the tree instead of on this host, with stand-ins for ip, dcb and udevadm."""
    text = content(file.BOOT_SCRIPT)
    for name, body in ({"ip": "", "udevadm": "", "dcb": "exit 1"} | programs).items():
        place = folder / "bin" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f'#!/bin/sh\necho "{name} $*" >>{folder}/heard\n{body}\n')
        place.chmod(0o755)
    place = folder / "boot.sh"
    place.write_text(re.sub(r'([ ="])/sys/', rf"\1{host.machine.root}/sys/", text))
    path = {"PATH": f"{folder}/bin:/usr/bin:/bin"}
    return subprocess.run(["sh", str(place)], capture_output=True, text=True, timeout=30, check=False, env=path)


def heard(folder: Path) -> list[str]:
    """What the boot script asked ip, dcb and udevadm, without what dcb was only asked to show."""
    lines = (folder / "heard").read_text().splitlines()
    return [line for line in lines if not (line.startswith("dcb ") and " show " in line)]


def content(path: str) -> str:
    """What the plan wants in a file."""
    wants = [setting.want for setting in wanted(steps=frozenset({"qos"}))]
    return next(want.content for want in wants if isinstance(want, file.Want) and want.path == path)
