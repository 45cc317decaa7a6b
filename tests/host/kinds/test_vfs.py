import errno

import pytest

from tests.host.nics import FRESH, Drivers, install
from tests.host.places import Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import grow, nic
from trackbed.host.change import Change
from trackbed.host.kinds import vf_address, vf_mtu
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import apply, undo
from trackbed.host.transaction.compare import compare
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_delete_link, build_set_link, get_link
from trackbed.kernel.netlink.vfs import VfChange

PCI = ("0000:18:00.0", "0000:3a:00.0")
PORTS = '[{pci: "0000:18:00.0", netdev: eth0}, {netdev: eth1}]'


def wanted(count: int = 4, steps: frozenset[str] = frozenset({"vfs"}), spec: str = "") -> tuple[Setting, ...]:
    text = f"  vfs: {{count: {count}}}\n  names: {{netdev: keep}}\n{spec}"
    return iter_settings(node_plan("{scheme: none}" if spec else P2P, PORTS, spec=text), steps)


@pytest.fixture
def host(place: Host) -> Host:
    return ports(place)


def ports(place: Host) -> Host:
    """The host with both ports in its sysfs."""
    for netdev, pci in zip(("eth0", "eth1"), PCI, strict=True):
        nic(place.machine.root, netdev, pci)
    return place


def number(host: Host, pci: str = PCI[0]) -> str:
    return host.machine.locate(f"/sys/bus/pci/devices/{pci}/sriov_numvfs").read_text().strip()


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
    assert [(change.subject, change.have, change.want) for change in changes(host)] == [
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
    write, _ = changes(host)[0].operations
    assert (getattr(write, "intermediate_value", None), getattr(write, "value", None)) == ("0", "4")
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
    assert (change.operations == ()) is busy
    assert ("0000:18:00.2 are in use; drain this node first" in change.advice) is busy


def test_undo_leaves_vfs_that_are_in_use_and_says_so(host: Host) -> None:
    apply(host.machine, wanted(), host.records)
    vf(host, "0000:18:00.2")
    (wrong,) = undo(host.machine, host.records)
    assert "VFs 0000:18:00.2 are in use" in wrong
    assert (number(host), number(host, PCI[1])) == ("4", "0")


def test_a_count_above_the_firmwares_is_told(host: Host) -> None:
    change = changes(host, 16)[0]
    assert change.operations == ()
    assert change.advice == "the firmware of eth0 offers 8 VFs at most; raise that (NUM_OF_VFS), or plan fewer"


def test_a_port_without_sriov_is_told(host: Host) -> None:
    host.machine.locate(f"/sys/bus/pci/devices/{PCI[0]}/sriov_totalvfs").unlink()
    assert changes(host)[0].advice.startswith("eth0 offers no VFs; switch SR-IOV on in the BIOS")


def test_ports_that_are_no_pci_devices_are_skipped_once_for_each_reason(place: Host) -> None:
    comparison = compare(place.machine, wanted())
    assert comparison.changes == ()
    assert [skipped.subject for skipped in comparison.skipped] == [
        "file /etc/udev/rules.d/59-trackbed-vfs.rules",
        "driver of new VFs of eth0 and 1 more of step vfs",
        "MAC of VF 0 of eth0 and 23 more of step vfs",
        "driver of new VFs of eth1 and 1 more of step vfs",
    ]


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> Drivers:
    """Drivers that keep trust and spoof check."""
    made = Drivers()
    install(made, monkeypatch)
    return made


def guarded(spec: str = "trust: true, spoofCheck: false") -> tuple[Setting, ...]:
    """What VFs of the first port are wanted to have, but for their addresses (see test_vf_address)."""
    text = f"  vfs: {{count: 2, mtu: 1400, {spec}}}\n  names: {{netdev: keep}}\n"
    settings = iter_settings(node_plan(P2P, PORTS, spec=text), {"vfs"})
    return tuple(item for item in settings if item.rail == 0 and not isinstance(item.want, vf_address.Want))


def test_trust_and_spoof_check_are_set_after_the_vfs_are_made_and_go_with_them(host: Host, drivers: Drivers) -> None:
    done = apply(host.machine, guarded(), host.records)
    assert [(change.subject, change.have, change.want) for change in done.changes] == [
        ("VFs of eth0", "0", "2"),
        ("VF 0 of eth0", "trust off, spoof check on", "trust on, spoof check off"),
        ("VF 1 of eth0", "trust off, spoof check on", "trust on, spoof check off"),
    ]
    assert drivers.guards == {("eth0", vf): FRESH._replace(trust=True, spoof_check=False) for vf in (0, 1)}
    assert compare(host.machine, guarded()).changes == ()
    assert undo(host.machine, host.records) == ()
    assert number(host) == "0"


def test_trust_of_vfs_that_were_there_is_undone(host: Host, drivers: Drivers) -> None:
    grow(host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/sriov_numvfs": "2"})
    apply(host.machine, guarded("trust: true"), host.records)
    assert {guard.trust for guard in drivers.guards.values()} == {True}
    assert undo(host.machine, host.records) == ()
    assert {(guard.trust, guard.spoof_check) for guard in drivers.guards.values()} == {(False, True)}


def test_a_refused_switch_is_reported_with_a_hint_and_all_else_is_set(host: Host, drivers: Drivers) -> None:
    drivers.refuses = errno.EPERM
    done = apply(host.machine, guarded(), host.records)
    assert [change.subject for change in done.changes] == ["VFs of eth0"]
    assert number(host) == "2"
    assert [change.subject for change in done.remaining.changes] == ["VF 0 of eth0", "VF 1 of eth0"]
    advice = done.remaining.changes[0].advice
    assert advice.startswith("VF 0 of eth0: setting trust on, spoof check off was refused: Operation not permitted")
    assert "the BlueField is in DPU mode, so its Arm cores set the VFs" in advice
    assert drivers.guards == {}


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        pytest.param(VfChange(mac=FRESH.mac), "this port's driver has neither trust nor spoof check", id="neither"),
        pytest.param(None, "eth0 is in switchdev mode: the ports of its switch rule the VFs", id="switchdev"),
    ],
)
def test_switches_that_are_not_the_ports_are_skipped(
    host: Host, drivers: Drivers, known: VfChange | None, reason: str
) -> None:
    grow(host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/sriov_numvfs": "2"})
    if known:
        drivers.guards = {("eth0", 0): known, ("eth0", 1): known}
    else:
        grow(host.machine.root, {"/sys/class/net/eth0/phys_switch_id": "b83fd2\n"})
    comparison = compare(host.machine, guarded())
    assert comparison.changes == ()
    assert reason in [skipped.reason for skipped in comparison.skipped]


def mtu(host: Host, name: str) -> int:
    with host.machine.open_socket() as sock:
        return get_link(sock, name).mtu


def test_a_vfs_mtu_is_set_while_it_is_on_the_host_and_undone(host: Host, drivers: Drivers) -> None:
    assert drivers.refuses == 0
    grow(host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/sriov_numvfs": "2"})
    host.send(build_create_veth(VethEnd("eth0v0"), VethEnd("other")))
    vf(host, "0000:18:00.2", netdev="eth0v0")
    (host.machine.root / "sys/bus/pci/devices/0000:18:00.2").symlink_to(
        host.machine.root / "sys/devices/pci0000:00/0000:18:00.2"
    )
    apply(host.machine, guarded(), host.records)
    assert mtu(host, "eth0v0") == 1400
    assert undo(host.machine, host.records) == ()
    assert mtu(host, "eth0v0") == 1500


def test_vfs_that_are_made_anew_get_their_mtu_and_not_those_that_were_there(
    host: Host, drivers: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert drivers.refuses == 0
    grow(host.machine.root, {f"/sys/bus/pci/devices/{PCI[0]}/sriov_numvfs": "1"})
    host.send(build_create_veth(VethEnd("eth0v0"), VethEnd("other")))
    vf(host, "0000:18:00.2", netdev="eth0v0")
    write = Machine.write_attribute

    def as_the_kernel_does(machine: Machine, path: str, value: str) -> None:
        write(machine, path, value)
        if path.endswith("/sriov_numvfs"):
            none = value.strip() == "0"
            host.send(
                build_delete_link(host.index("eth0v0"))
                if none
                else build_create_veth(VethEnd("eth0v0"), VethEnd("other"))
            )

    monkeypatch.setattr(Machine, "write_attribute", as_the_kernel_does)
    apply(host.machine, guarded(), host.records)
    assert (number(host), mtu(host, "eth0v0")) == ("2", 1400)


@pytest.mark.parametrize(
    ("driver", "netdev", "reason"),
    [
        pytest.param("mlx5_core", "", "the interface of this VF is in a pod", id="in a pod"),
        pytest.param("mlx5_core", "elsewhere", "the interface of this VF is in a pod", id="in another namespace"),
        pytest.param("vfio-pci", "", "this VF is given to vfio-pci", id="in a virtual machine"),
        pytest.param("", "", "no driver has this VF", id="without driver"),
    ],
)
def test_the_mtu_of_a_vf_that_is_away_is_skipped_with_that_reason(
    host: Host, driver: str, netdev: str, reason: str
) -> None:
    vf(host, "0000:18:00.2", driver or "x", netdev)
    if not driver:
        (host.machine.root / "sys/devices/pci0000:00/0000:18:00.2/driver").unlink()
    comparison = compare(host.machine, [setting for setting in guarded() if isinstance(setting.want, vf_mtu.Want)])
    assert comparison.changes == ()
    assert [skipped.reason for skipped in comparison.skipped] == [reason, "there is no such VF yet"]


def test_a_vfs_mtu_waits_for_its_ports(host: Host) -> None:
    host.send(build_create_veth(VethEnd("eth0v0"), VethEnd("other")), build_set_link(host.index("eth0"), mtu=1300))
    vf(host, "0000:18:00.2", netdev="eth0v0")
    comparison = compare(host.machine, [setting for setting in guarded() if isinstance(setting.want, vf_mtu.Want)])
    assert comparison.skipped[0].reason == "the MTU of eth0 is 1300, and a VF's cannot be above it"


def test_new_vfs_get_their_driver_and_the_switch_is_put_back(host: Host) -> None:
    file = f"/sys/bus/pci/devices/{PCI[0]}/sriov_drivers_autoprobe"
    grow(host.machine.root, {file: "0\n"})
    changed = changes(host)
    assert [change.subject for change in changed][:2] == ["driver of new VFs of eth0", "VFs of eth0"]
    apply(host.machine, wanted(), host.records)
    assert host.machine.read(file) == "1"
    assert undo(host.machine, host.records) == ()
    assert host.machine.read(file) == "0"


def test_a_namespace_that_shares_its_host_leaves_vfs_alone(host: Host) -> None:
    grow(host.machine.root, {"/run/systemd/container": "docker\n"})
    comparison = compare(host.machine, wanted())
    assert comparison.changes == ()
    assert {skipped.reason for skipped in comparison.skipped} == {"this is a container, and these are its host's"}
