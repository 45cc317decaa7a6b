import subprocess
from pathlib import Path

import pytest

from tests.chain.fabrics import P2P, node_plan
from tests.hosts.places import Host
from tests.hosts.trees import everything_below, grow, nic
from trackbed.chain import boot, settings
from trackbed.chain.setting import File, Setting
from trackbed.hosts.apply import apply, undo
from trackbed.hosts.change import Change
from trackbed.hosts.compare import compare

PCI = ("0000:18:00.0", "0000:3a:00.0")
PORTS = '[{pci: "0000:18:00.0", netdev: eth0}, {netdev: eth1}]'
SYSTEMD = {"/usr/lib/systemd/system/multi-user.target": ""}


def wanted(count: int = 4, steps: frozenset[str] = frozenset({"vfs"})) -> tuple[Setting, ...]:
    return settings(node_plan(P2P, PORTS, more=f"  vfs: {{count: {count}}}\n  names: {{netdev: keep}}\n"), steps)


@pytest.fixture
def host(place: Host) -> Host:
    for netdev, pci in zip(("eth0", "eth1"), PCI, strict=True):
        nic(place.machine.root, netdev, pci)
    return place


def number(host: Host, pci: str = PCI[0]) -> str:
    return host.machine.path(f"/sys/bus/pci/devices/{pci}/sriov_numvfs").read_text().strip()


def changes(host: Host, count: int = 4) -> tuple[Change, ...]:
    return compare(host.machine, wanted(count)).changes


def vf(host: Host, at: str, driver: str = "mlx5_core", netdev: str = "") -> None:
    """One VF of the first port, with a driver and perhaps an interface."""
    folder = host.machine.root / f"sys/devices/pci0000:00/{at}"
    (folder / "net" / netdev if netdev else folder).mkdir(parents=True)
    target = host.machine.root / f"sys/bus/pci/drivers/{driver}"
    target.mkdir(parents=True, exist_ok=True)
    (folder / "driver").symlink_to(target)
    (host.machine.root / f"sys/devices/pci0000:00/{PCI[0]}/virtfn0").symlink_to(folder)


def test_vfs_are_made_and_undone_on_ports_known_by_address_and_by_name(host: Host) -> None:
    assert [(change.what, change.have, change.want) for change in changes(host)] == [
        ("VFs of eth0", "0", "4"),
        ("VFs of eth1", "0", "4"),
    ]
    apply(host.machine, wanted(), host.records)
    assert [number(host, pci) for pci in PCI] == ["4", "4"]
    assert changes(host) == ()
    assert undo(host.machine, host.records) == ()
    assert [number(host, pci) for pci in PCI] == ["0", "0"]


def test_another_count_goes_through_none(host: Host) -> None:
    grow(host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/sriov_numvfs": "2"})
    (write,) = changes(host)[0].do
    assert (getattr(write, "first", None), getattr(write, "value", None)) == ("0", "4")
    apply(host.machine, wanted(), host.records)
    assert number(host) == "4"
    assert undo(host.machine, host.records) == ()
    assert number(host) == "2"


@pytest.mark.parametrize(
    ("driver", "netdev", "busy"),
    [
        pytest.param("mlx5_core", "", True, id="its interface is in a pod"),
        pytest.param("vfio-pci", "", True, id="given to a virtual machine"),
        pytest.param("mlx5_core", "eth0v0", False, id="idle on the host"),
    ],
)
def test_a_count_stays_while_vfs_are_in_use(host: Host, driver: str, netdev: str, *, busy: bool) -> None:
    grow(host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/sriov_numvfs": "1"})
    vf(host, "0000:18:00.2", driver, netdev)
    change = changes(host)[0]
    assert (change.do == ()) is busy
    assert ("0000:18:00.2 are in use; drain this node first" in change.advice) is busy


def test_undo_leaves_vfs_that_are_in_use_and_says_so(host: Host) -> None:
    apply(host.machine, wanted(), host.records)
    vf(host, "0000:18:00.2")
    (wrong,) = undo(host.machine, host.records)
    assert "VFs 0000:18:00.2 are in use" in wrong
    assert (number(host), number(host, PCI[1])) == ("4", "0")


def test_a_count_above_the_firmwares_is_told(host: Host) -> None:
    change = changes(host, 16)[0]
    assert change.do == ()
    assert change.advice == "the firmware of eth0 offers 8 VFs at most; raise that (NUM_OF_VFS), or plan fewer"


def test_a_port_without_sriov_is_told(host: Host) -> None:
    host.machine.path(f"/sys/bus/pci/devices/{PCI[0]}/sriov_totalvfs").unlink()
    assert changes(host)[0].advice.startswith("eth0 offers no VFs; switch SR-IOV on in the BIOS")


def test_ports_that_are_no_pci_devices_are_skipped_once_for_each_reason(place: Host) -> None:
    found = compare(place.machine, wanted())
    assert found.changes == ()
    assert [skipped.what for skipped in found.skipped] == ["VFs of eth0", "VFs of eth1"]


def test_the_boot_unit_is_written_where_systemd_is_and_taken_away_with_the_plan(host: Host) -> None:
    assert compare(host.machine, wanted(steps=frozenset({"qos"}))).changes == ()
    grow(host.machine.root, SYSTEMD)
    before = everything_below(host.machine.root)
    apply(host.machine, wanted(steps=frozenset({"qos"})), host.records)
    written = [path for path in (boot.SCRIPT, boot.UNIT, boot.WANTED) if host.machine.path(path).is_file()]
    assert written == [boot.SCRIPT, boot.UNIT, boot.WANTED]
    assert host.machine.path(boot.SCRIPT).stat().st_mode & 0o777 == 0o755
    assert compare(host.machine, wanted(steps=frozenset({"qos"}))).changes == ()
    assert undo(host.machine, host.records) == ()
    assert everything_below(host.machine.root) == before


def test_the_unit_runs_before_kubelet_and_after_the_ports_have_their_names() -> None:
    unit = content(boot.UNIT)
    assert "Before=kubelet.service" in unit
    assert "sys-subsystem-net-devices-eth0.device sys-subsystem-net-devices-eth1.device" in unit


@pytest.mark.needs("systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    place = tmp_path / "trackbed-boot.service"
    place.write_text(content(boot.UNIT))
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
    host.machine.path(f"/sys/bus/pci/devices/{PCI[0]}/sriov_numvfs").unlink()
    ran = script(host, tmp_path)
    assert ran.returncode == 1
    assert f"{PCI[0]} offers no VFs" in ran.stderr
    assert number(host, PCI[1]) == "4"


def script(host: Host, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the boot script on the tree instead of on this host."""
    text = content(boot.SCRIPT)
    place = folder / "boot.sh"
    place.write_text(text.replace(" /sys/", f" {host.machine.root}/sys/"))
    return subprocess.run(["sh", str(place)], capture_output=True, text=True, timeout=30, check=False)


def content(path: str) -> str:
    """What the plan wants in a file."""
    wants = [setting.want for setting in wanted(steps=frozenset({"qos"}))]
    return next(want.content for want in wants if isinstance(want, File) and want.path == path)
