"""The boot unit and its script, which runs here on a captured tree."""

import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.host.kinds.test_vfs import PCI, number, ports, vf, wanted
from tests.host.places import Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import everything_below, grow
from trackbed.host.kinds import file
from trackbed.host.setting import Setting
from trackbed.host.steps import iter_settings
from trackbed.host.steps.boot_script import TEXT
from trackbed.host.transaction.apply import apply, undo
from trackbed.host.transaction.compare import compare

pytestmark = pytest.mark.needs("processes")

FILES = [file.BOOT_SCRIPT, file.PORT_UNIT, file.BOOT_TARGET, file.BOOT_WANTED, file.PORT_RULES]
SYSTEMD = {"/usr/lib/systemd/system/multi-user.target": ""}


@pytest.fixture
def host(place: Host) -> Host:
    return ports(place)


def test_the_boot_unit_is_written_where_systemd_is_and_taken_away_with_the_plan(host: Host) -> None:
    assert compare(host.machine, wanted(steps=frozenset({"qos"}))).changes == ()
    grow(host.machine.root, SYSTEMD)
    before = everything_below(host.machine.root)
    apply(host.machine, wanted(steps=frozenset({"qos"})), host.records)
    written = [path for path in FILES if host.machine.locate(path).is_file()]
    assert written == FILES
    assert host.machine.locate(file.BOOT_SCRIPT).stat().st_mode & 0o777 == 0o755
    assert compare(host.machine, wanted(steps=frozenset({"qos"}))).changes == ()
    assert undo(host.machine, host.records) == ()
    assert everything_below(host.machine.root) == before


def test_a_ports_unit_runs_before_kubelet_and_lives_as_long_as_its_device() -> None:
    unit = content(file.PORT_UNIT)
    assert "Before=kubelet.service" in unit
    assert "BindsTo=sys-subsystem-net-devices-%i.device" in unit
    assert "Wants=trackbed-port@eth0.service trackbed-port@eth1.service" in content(file.BOOT_TARGET)


@pytest.mark.needs("udevadm")
@pytest.mark.may_skip("a container has no udev; emulated servers run the rules")
def test_udev_takes_the_rules_and_they_name_each_ports_unit(tmp_path: Path) -> None:
    rules = content(file.PORT_RULES)
    assert 'NAME=="eth0", TAG+="systemd", ENV{SYSTEMD_WANTS}+="trackbed-port@eth0.service"' in rules
    place = tmp_path / "90-trackbed-ports.rules"
    place.write_text(rules)
    ran = subprocess.run(["udevadm", "verify", str(place)], capture_output=True, text=True, timeout=30, check=False)
    assert "failed" not in ran.stdout + ran.stderr or "0 udev rules" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.needs("systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    for path in (file.PORT_UNIT, file.BOOT_TARGET):
        (tmp_path / Path(path).name).write_text(content(path))
    places = [str(tmp_path / "trackbed-port@eth0.service"), str(tmp_path / "trackbed-boot.target")]
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *places], capture_output=True, text=True, timeout=60, check=False
    )
    assert [line for line in ran.stderr.splitlines() if "trackbed-" in line] == []


def test_the_boot_script_makes_the_vfs(host: Host, tmp_path: Path) -> None:
    grow(host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/sriov_numvfs": "2"})
    ran = script(host, tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [number(host, pci) for pci in PCI] == ["4", "4"]


@pytest.mark.parametrize("renames", [0, 1, 4])
def test_a_vf_gets_its_mtu_while_udev_names_its_interface(tmp_path: Path, renames: int) -> None:
    folder = tmp_path / "virtfn0/net"
    (folder / "eth0").mkdir(parents=True)
    (folder / "eth0/mtu").write_text("1500\n")
    rename = 'left=$((left - 1)); [ "$left" -lt 0 ] || mv virtfn0/net/* "virtfn0/net/name$left"'
    lines = f'left={renames}\nput() {{ {rename}\n[ ! -e "$1" ] || echo "$2" >"$1"; }}\nfit virtfn0 9000; exit $failed\n'
    ran = subprocess.run(["sh", "-c", TEXT + lines], cwd=tmp_path, timeout=30, check=False)
    assert (ran.returncode, [path.read_text() for path in folder.glob("*/mtu")]) == (0, ["9000\n"])


def test_a_vf_without_an_interface_has_no_mtu_to_set(tmp_path: Path) -> None:
    (tmp_path / "virtfn0").mkdir()
    ran = subprocess.run(["sh", "-c", f"{TEXT}fit virtfn0 9000; exit $failed"], cwd=tmp_path, timeout=30, check=False)
    assert ran.returncode == 0


def test_the_boot_script_says_which_port_offers_no_vfs_and_goes_on(host: Host, tmp_path: Path) -> None:
    host.machine.locate(f"/sys/bus/pci/devices/{PCI[0]}/sriov_numvfs").unlink()
    ran = script(host, tmp_path)
    assert ran.returncode == 1
    assert f"{PCI[0]} offers no VFs" in ran.stderr
    assert number(host, PCI[1]) == "4"


SET = "02:00:00:00:00:11"
HOSTILE = ("$(touch x)", "`touch x`", "a;touch x;", "a\ntouch x\n", "a)touch x;;", "*", "a b", "'", '"')


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_is_a_command_of_the_boot_script(tmp_path: Path, name: str) -> None:
    plan = node_plan("{scheme: none}", '["0000:18:00.0", {mac: "b8:3f:d2:00:00:01"}]', spec="  vfs: {count: 2}\n")
    ports = tuple(port._replace(netdev=name) for port in plan.ports[1:])
    settings = iter_settings(plan._replace(ports=ports), frozenset({"qos"}))
    (tmp_path / "boot.sh").write_text(content(file.BOOT_SCRIPT, settings).replace("left=120", "left=0"))
    ran = subprocess.run(
        ["sh", "boot.sh"], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False, env={"PATH": "/bin"}
    )
    assert [path.name for path in tmp_path.iterdir()] == ["boot.sh"], ran.stderr


MACS = ["0e:7d:00:00:40:00", "0e:7d:00:00:40:01"]
SHOWN = f"    vf 0     link/ether {SET} brd ff:ff:ff:ff:ff:ff, spoof checking off, link-state auto, trust on"


def test_the_boot_script_guards_the_vfs_that_are_there(host: Host, tmp_path: Path) -> None:
    vf(host, "0000:18:00.2", netdev="eth0v0")
    grow(host.machine.root, {"/sys/devices/pci0000:00/0000:18:00.2/net/eth0v0/mtu": "1500\n"})
    grow(host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/sriov_drivers_autoprobe": "0\n"})
    grow(host.machine.root, {"/sys/class/net/eth0/mtu": "1500\n", "/sys/class/net/eth1/mtu": "9216\n"})
    ran = script(host, tmp_path, ip=f'[ "$1 $2" != "link show" ] || echo "{SHOWN}"')
    assert (ran.returncode, ran.stderr) == (0, "")
    assert heard(tmp_path) == [
        "ip link set dev eth0 up",
        "udevadm settle --timeout=30",
        "ip link show dev eth0",
        f"ip link set dev eth0 vf 0 mac {MACS[0]}",
        "ip link set dev eth0 vf 0 trust off",
        "ip link set dev eth0 vf 0 spoofchk on",
        "ip link set dev eth1 up",
        "udevadm settle --timeout=30",
        "ip link show dev eth1",
    ]
    assert host.machine.read("/sys/devices/pci0000:00/0000:18:00.2/net/eth0v0/mtu") == "9000"
    assert [host.machine.read(f"/sys/class/net/{port}/mtu") for port in ("eth0", "eth1")] == ["9000", "9216"]
    assert host.machine.read(f"/sys/bus/pci/devices/{PCI[0]}/sriov_drivers_autoprobe") == "1"


def test_the_boot_script_leaves_guards_alone_that_are_as_wanted(host: Host, tmp_path: Path) -> None:
    vf(host, "0000:18:00.2", netdev="eth0v0")
    sound = SHOWN.replace("checking off", "checking on").replace("trust on", "trust off").replace(SET, MACS[0])
    grow(host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/virtfn0/net/eth0v0/address": f"{MACS[0]}\n"})
    script(host, tmp_path, ip=f'[ "$1 $2" != "link show" ] || echo "{sound}"')
    assert [line for line in heard(tmp_path) if "link set" in line and "vf" in line] == []


def test_the_boot_script_sets_no_switch_that_the_driver_does_not_have(host: Host, tmp_path: Path) -> None:
    vf(host, "0000:18:00.2", netdev="eth0v0")
    script(host, tmp_path, ip='echo "    vf 0     link/ether 02:00:00:00:00:11 brd ff:ff:ff:ff:ff:ff, link-state auto"')
    assert [line for line in heard(tmp_path) if "vf 0 trust" in line or "vf 0 spoofchk" in line] == []


def test_the_boot_script_binds_the_driver_of_a_vf_anew_that_gets_an_address(host: Host, tmp_path: Path) -> None:
    vf(host, "0000:18:00.2", netdev="eth0v0")
    ran = script(host, tmp_path, ip=f'[ "$1 $2" != "link show" ] || echo "{SHOWN}"')
    assert (ran.returncode, ran.stderr) == (0, "")
    assert host.machine.read("/sys/bus/pci/drivers/mlx5_core/unbind") == "0000:18:00.2"
    assert host.machine.read("/sys/bus/pci/drivers_probe") == "0000:18:00.2"


@pytest.mark.parametrize(
    ("shown", "used", "binds"),
    [
        pytest.param(MACS[0], MACS[0], False, id="set and read"),
        pytest.param(MACS[0], SET, True, id="set and not read"),
        pytest.param(SET, MACS[0], True, id="not set"),
    ],
)
def test_the_boot_script_binds_a_vf_anew_only_for_an_address_that_is_not_in_use(
    host: Host, tmp_path: Path, shown: str, used: str, *, binds: bool
) -> None:
    vf(host, "0000:18:00.2", netdev="eth0v0")
    grow(host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/virtfn0/net/eth0v0/address": f"{used}\n"})
    script(host, tmp_path, ip=f'[ "$1 $2" != "link show" ] || echo "{SHOWN.replace(SET, shown)}"')
    assert host.machine.locate("/sys/bus/pci/drivers_probe").exists() is binds
    assert any("mac" in line for line in heard(tmp_path)) is (shown != MACS[0])


def test_the_boot_script_leaves_the_address_of_a_vf_in_a_pod(host: Host, tmp_path: Path) -> None:
    vf(host, "0000:18:00.2")
    script(host, tmp_path, ip=f'[ "$1 $2" != "link show" ] || echo "{SHOWN}"')
    assert not host.machine.locate("/sys/bus/pci/drivers_probe").exists()
    assert not any("mac" in line for line in heard(tmp_path))


@pytest.mark.parametrize("names", [PCI, PCI[::-1]], ids=["as planned", "exchanged"])
def test_the_boot_script_sets_vfs_only_through_the_planned_device(
    host: Host, tmp_path: Path, names: Sequence[str]
) -> None:
    vf(host, "0000:18:00.2", netdev="eth0v0")
    for port, pci in zip(("eth0", "eth1"), names, strict=True):
        link = host.machine.locate(f"/sys/class/net/{port}/device")
        link.unlink(missing_ok=True)
        link.symlink_to(host.machine.locate(f"/sys/bus/pci/devices/{pci}"))
    ports = ", ".join(f'{{pci: "{pci}", netdev: eth{rail}}}' for rail, pci in enumerate(PCI))
    plan = node_plan(P2P, f"[{ports}]", spec="  vfs: {count: 4}\n  names: {netdev: keep}\n")
    settings = iter_settings(plan, frozenset({"qos"}))
    ran = script(host, tmp_path, settings=settings, ip=f'[ "$1 $2" != "link show" ] || echo "{SHOWN}"')
    if names == PCI:
        assert (ran.returncode, ran.stderr) == (0, "")
        assert f"ip link set dev eth0 vf 0 mac {MACS[0]}" in heard(tmp_path)
    else:
        assert ran.returncode == 1
        assert ran.stderr.splitlines() == [
            f"trackbed: {port} is {names[index]} and not {PCI[index]}: its VFs and QoS stay as they are; "
            "trackbed doctor says why"
            for index, port in enumerate(("eth0", "eth1"))
        ]
        assert not (tmp_path / "heard").exists()
        assert [number(host, pci) for pci in PCI] == ["0", "0"]


def test_the_boot_script_does_one_port(host: Host, tmp_path: Path) -> None:
    ran = script(host, tmp_path, "eth1")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [number(host, pci) for pci in PCI] == ["0", "4"]


def test_the_boot_script_gives_guids_on_infiniband(host: Host, tmp_path: Path) -> None:
    vf(host, "0000:18:00.2", netdev="eth0v0")
    grow(
        host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/virtfn0/infiniband/mlx5_4/node_guid": "0000:0000:0000:0000"}
    )
    settings = wanted(steps=frozenset({"qos"}), spec="  linkType: infiniband\n")
    ran = script(host, tmp_path, "eth0", settings=settings, ip="echo vf 0")
    assert (ran.returncode, ran.stderr) == (0, "")
    guid = "0e:7d:00:ff:fe:00:40:00"
    assert [line for line in heard(tmp_path) if line.startswith("ip ")] == [
        "ip link set dev eth0 up",
        "ip link show dev eth0",
        f"ip link set dev eth0 vf 0 node_guid {guid}",
        f"ip link set dev eth0 vf 0 port_guid {guid}",
        "ip link set dev eth0 vf 0 state auto",
    ]
    assert host.machine.read("/sys/bus/pci/drivers_probe") == "0000:18:00.2"


def driven(host: Host, driver: str) -> None:
    """Port eth0 has this driver."""
    (host.machine.root / f"sys/bus/pci/drivers/{driver}").mkdir(parents=True)
    place = host.machine.root / f"sys/devices/pci0000:00/{PCI[0]}/driver"
    place.symlink_to(host.machine.root / f"sys/bus/pci/drivers/{driver}")


def test_the_boot_script_takes_mlx5_over_from_its_firmware_before_it_sets_dcb(host: Host, tmp_path: Path) -> None:
    driven(host, "mlx5_core")
    script(host, tmp_path, dcb=ETS.format(own=3, classes=8, order="dscp"))
    sets = [line for line in heard(tmp_path) if line.startswith("dcb ")]
    assert sets[0] == "dcb dcbx set dev eth0 host ieee"


@pytest.mark.parametrize(
    ("classes", "notices"), [pytest.param(8, 6, id="eight classes"), pytest.param(4, 2, id="four classes")]
)
def test_the_boot_script_gives_ice_its_bandwidth_after_the_first_dscp(
    host: Host, tmp_path: Path, classes: int, notices: int
) -> None:
    driven(host, "ice")
    script(host, tmp_path, dcb=ETS.format(own=3, classes=classes, order="dscp"))
    assert [line for line in heard(tmp_path) if line.startswith("dcb ")] == [
        "dcb pfc set dev eth0 prio-pfc all:off 3:on",
        f"dcb app replace dev eth0 dscp-prio 26:3 48:{notices}",
        f"dcb ets set dev eth0 tc-tsa all:ets tc-bw all:0 0:40 {notices}:10 3:50",
    ]


ETS = """[ "$4" = eth0 ] || [ "$5" = eth0 ] || exit 1
case "$*" in
"-N app show"*) echo "dscp-prio 26:3 48:2 48:6 " ;;
*prio-tc) echo "prio-tc 0:0 1:1 2:2 3:{own} 4:4 5:5 6:6 7:7" ;;
*ets-cap) echo "ets-cap {classes}" ;;
"apptrust show"*) echo "order: {order}" ;;
esac"""


SHARED = ["ets set dev eth0 tc-tsa all:strict 0:ets 1:ets tc-bw all:0 0:50 1:50 prio-tc all:0 6:2 3:1"]


@pytest.mark.parametrize(
    ("own_bits", "classes", "order", "spec"),
    [
        pytest.param(3, 8, "dscp pcp", [], id="all is as wanted"),
        pytest.param(3, 8, "pcp dscp", ["apptrust set dev eth0 order dscp"], id="another trust"),
        pytest.param(4, 8, "dscp", SHARED, id="a class that is shared"),
        pytest.param(4, 2, "dscp", [SHARED[0].replace("6:2", "6:0")], id="two classes"),
        pytest.param(4, 1, "dscp", [], id="one class"),
    ],
)
def test_the_boot_script_sets_dcb_where_the_driver_has_it(
    host: Host, own_bits: int, classes: int, order: str, spec: list[str]
) -> None:
    folder = host.machine.root.parent
    ran = script(host, folder, dcb=ETS.format(own=own_bits, classes=classes, order=order))
    assert (ran.returncode, ran.stderr) == (0, "")
    sets = [line.removeprefix("dcb ") for line in heard(folder) if line.startswith("dcb ")]
    assert sorted(sets) == sorted(
        ["app replace dev eth0 dscp-prio 26:3 48:6", "pfc set dev eth0 prio-pfc all:off 3:on", *spec]
    )


def test_the_boot_script_asks_a_driver_without_dcb_once_for_each_port(host: Host, tmp_path: Path) -> None:
    script(host, tmp_path)
    lines = [line for line in (tmp_path / "heard").read_text().splitlines() if line.startswith("dcb ")]
    assert lines == ["dcb app show dev eth0", "dcb app show dev eth1"]


def test_the_boot_script_gives_rdma_cm_its_traffic_class(host: Host, tmp_path: Path) -> None:
    files = [f"/sys/kernel/config/rdma_cm/{name}/ports/1/default_roce_tos" for name in ("mlx5_9", "rxe7", "other")]
    grow(host.machine.root, dict.fromkeys(files, "0\n"))
    grow(host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/infiniband/mlx5_9/node_guid": "x\n"})
    for name, interface in (("rxe7", "eth1"), ("other", "mgmt0")):
        grow(host.machine.root, {f"/sys/class/infiniband/{name}/ports/1/gid_attrs/ndevs/0": f"{interface}\n"})
    script(host, tmp_path)
    assert [host.machine.read(file) for file in files] == ["106", "106", "0"]


STATES = """[ "$3" = list ] || exit 0
count=$(grep -c "list $4" {folder}/heard)
set -- {states}
[ "$count" -lt $# ] || count=$#
shift $((count - 1))
[ -z "$1" ] || echo " 2 eth0 ether routable $1"
"""


@pytest.mark.parametrize(
    ("states", "count"),
    [
        pytest.param("configured", 0, id="configured"),
        pytest.param("pending failed", 2, id="given up"),
        pytest.param("pending configured", 0, id="late"),
        pytest.param("failed", 2, id="failed already"),
        pytest.param("unmanaged", 0, id="of another manager"),
        pytest.param("''", 0, id="without an answer"),
    ],
)
def test_the_boot_script_asks_networkd_again_that_gave_a_port_up(
    host: Host, tmp_path: Path, states: str, count: int
) -> None:
    ran = script(host, tmp_path, networkctl=STATES.format(folder=tmp_path, states=states), sleep="")
    again = [line for line in heard(tmp_path) if line.startswith("networkctl reconfigure")]
    assert again == ["networkctl reconfigure eth0", "networkctl reconfigure eth1"][:count]
    assert (ran.returncode, ran.stderr.count("is asked again")) == (0, count)


def test_the_boot_script_waits_no_longer_than_its_time_for_networkd(host: Host, tmp_path: Path) -> None:
    networkctl = STATES.format(folder=tmp_path, states="pending")
    ran = script(host, tmp_path, networkctl=networkctl, sleep="")
    assert (ran.returncode, heard(tmp_path).count("sleep 1")) == (0, 120)


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


def script(
    host: Host, folder: Path, *ports_to_do: str, settings: Iterable[Setting] = (), **programs: str
) -> subprocess.CompletedProcess[str]:
    """Run the boot script on the tree instead of on this host, with stand-ins for ip, dcb, networkctl and udevadm."""
    text = content(file.BOOT_SCRIPT, settings)
    for name, body in ({"ip": "", "udevadm": "", "dcb": "exit 1", "networkctl": ""} | programs).items():
        place = folder / "bin" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f'#!/bin/sh\necho "{name} $*" >>{folder}/heard\n{body}\n')
        place.chmod(0o755)
    place = folder / "boot.sh"
    place.write_text(re.sub(r'([ =">])/sys/', rf"\1{host.machine.root}/sys/", text))
    path = {"PATH": f"{folder}/bin:/usr/bin:/bin"}
    return subprocess.run(
        ["sh", str(place), *ports_to_do], capture_output=True, text=True, timeout=30, check=False, env=path
    )


def heard(folder: Path) -> list[str]:
    """What the boot script asked its programs, without what dcb and networkctl were only asked to show."""
    lines = (folder / "heard").read_text().splitlines()
    return [line for line in lines if not re.match(r"dcb .* show |networkctl .* list ", line)]


def content(path: str, settings: Iterable[Setting] = ()) -> str:
    """What the plan wants in a file."""
    wants = [setting.want for setting in settings or wanted(steps=frozenset({"qos"}))]
    return next(want.content for want in wants if isinstance(want, file.Want) and want.path == path)
