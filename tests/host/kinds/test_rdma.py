import errno

import pytest

from tests.host.kernel import RdmaCore, speak_to
from tests.host.places import Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import everything_below, grow, nic
from trackbed.host import talk
from trackbed.host.kinds import file
from trackbed.host.setting import Setting
from trackbed.host.steps import list_settings
from trackbed.host.transaction.apply import ApplyError, apply, undo
from trackbed.host.transaction.compare import compare
from trackbed.kernel.netlink.rdma import rename_device

PORTS = '[{pci: "0000:18:00.0", netdev: eth0}, {pci: "0000:3a:00.0", netdev: eth1}]'


def wanted(mode: str = "exclusive") -> tuple[Setting, ...]:
    more = f"  rdma: {{namespaceMode: {mode}}}\n  names: {{netdev: keep}}\n"
    return list_settings(node_plan(P2P, PORTS, more=more), {"rdma"})


@pytest.fixture
def host(place: Host, monkeypatch: pytest.MonkeyPatch) -> tuple[Host, RdmaCore]:
    """A host with two RDMA devices, and the core that renames them in its sysfs."""
    root = place.machine.root
    nic(root, "eth0", "0000:18:00.0", rdma="mlx5_0")
    nic(root, "eth1", "0000:3a:00.0", rdma="mlx5_1")
    core = RdmaCore(root)
    speak_to(core, monkeypatch)
    return place, core


def test_mode_and_names_are_set_now_and_for_the_next_boot_and_undone(host: tuple[Host, RdmaCore]) -> None:
    place, core = host
    before = everything_below(place.machine.root)
    apply(place.machine, wanted(), place.records)
    assert core.heard == ["mode 0", "mlx5_0 becomes rail0", "mlx5_1 becomes rail1"]
    assert "options ib_core netns_mode=0" in place.machine.locate(file.RDMA_MODPROBE).read_text()
    assert (
        'KERNELS=="0000:3a:00.0", PROGRAM="rdma_rename %k NAME_FIXED rail1"'
        in place.machine.locate(file.RDMA_RULES).read_text()
    )
    assert compare(place.machine, wanted()).changes == ()
    assert undo(place.machine, place.records) == ()
    assert everything_below(place.machine.root) == before


def test_a_second_apply_asks_nothing(host: tuple[Host, RdmaCore]) -> None:
    place, core = host
    apply(place.machine, wanted(), place.records)
    count = len(core.heard)
    assert apply(place.machine, wanted(), place.records).changes == ()
    assert len(core.heard) == count


def test_while_other_namespaces_exist_the_mode_waits_for_the_reboot(host: tuple[Host, RdmaCore]) -> None:
    place, core = host
    for number, inode in (("1", 4026531840), ("77", 4026532999), ("78", 4026532999)):
        folder = place.machine.root / f"proc/{number}/ns"
        folder.mkdir(parents=True)
        (folder / "net").symlink_to(f"net:[{inode}]")
    (left,) = apply(place.machine, wanted(), place.records).left.changes
    assert (left.subject, left.have, left.want, left.reboot) == ("RDMA namespace mode", "shared", "exclusive", True)
    assert left.advice.startswith("other network namespaces exist")
    assert "mode 0" not in core.heard


def test_a_namespace_that_is_only_kept_makes_the_mode_wait_too(host: tuple[Host, RdmaCore]) -> None:
    place, _ = host
    grow(place.machine.root, {"/run/netns/blue": ""})
    assert [change.subject for change in compare(place.machine, wanted()).changes if change.reboot] == [
        "RDMA namespace mode"
    ]


def test_files_below_a_devices_name_are_written_after_it_was_renamed_and_undone_before(
    host: tuple[Host, RdmaCore],
) -> None:
    place, _ = host
    before = everything_below(place.machine.root)
    node = node_plan(P2P, PORTS, more="  names: {netdev: keep}\n")
    both = list_settings(node, {"rdma", "qos"})
    apply(place.machine, both, place.records)
    path = "/sys/class/net/eth0/device/infiniband/rail0/tc/1/traffic_class"
    assert place.machine.locate(path).read_text() == "106"
    assert compare(place.machine, both).changes == ()
    assert undo(place.machine, place.records) == ()
    after = everything_below(place.machine.root)
    assert after.keys() == before.keys()
    assert {text for path, (text, _) in after.items() if path.endswith("traffic_class")} == {"0"}


def test_where_the_core_cannot_be_asked_the_commands_are_told(
    host: tuple[Host, RdmaCore], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = host
    speak_to(None, monkeypatch)
    told = [change.advice for change in compare(place.machine, wanted()).changes if not change.do]
    assert told == [
        "run on this host: rdma system set netns exclusive",
        "run on this host: rdma dev set mlx5_0 name rail0",
        "run on this host: rdma dev set mlx5_1 name rail1",
    ]


def test_a_captured_tree_is_never_told_of_by_this_hosts_kernel(place: Host) -> None:
    assert talk.open_rdma(place.machine) is None
    grow(place.machine.root, {"/proc/sys/kernel/random/boot_id": "6e4b6a9c-0000-0000-0000-000000000000\n"})
    assert talk.open_rdma(place.machine) is None
    assert talk.list_devices(place.machine) == {}
    assert talk.send_message(place.machine, rename_device(0, "x")) == "this kernel's RDMA core cannot be asked"


def test_a_refusal_puts_everything_back_and_is_told(host: tuple[Host, RdmaCore]) -> None:
    place, core = host
    before = everything_below(place.machine.root)
    core.refuses = errno.EBUSY
    with pytest.raises(ApplyError, match="RDMA namespace mode: setting exclusive was refused: Device or resource busy"):
        apply(place.machine, wanted(), place.records)
    assert everything_below(place.machine.root) == before


def test_undo_says_which_device_is_gone_and_what_was_refused(host: tuple[Host, RdmaCore]) -> None:
    place, core = host
    apply(place.machine, wanted(), place.records)
    (place.machine.root / "sys/class/infiniband/rail1").rename(place.machine.root / "gone")
    core.refuses = errno.EBUSY
    assert undo(place.machine, place.records) == (
        "RDMA namespace mode shared: Device or resource busy",
        "name mlx5_0 of RDMA device rail0: Device or resource busy",
        "RDMA device mlx5_1 is gone",
    )


def test_a_software_device_is_known_by_the_interface_it_is_on(host: tuple[Host, RdmaCore]) -> None:
    place, _ = host
    (place.machine.root / "sys/class/net/eth0/device").unlink()
    grow(place.machine.root, {"/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0": "eth0\n"})
    found = {change.subject: change.have for change in compare(place.machine, wanted()).changes}
    assert found["RDMA device of eth0"] == "rxe0"


def test_a_name_that_another_device_has_is_left_to_a_person(host: tuple[Host, RdmaCore]) -> None:
    place, core = host
    nic(place.machine.root, "eth9", "0000:5a:00.0", rdma="rail0")
    (left,) = apply(place.machine, wanted(), place.records).left.changes
    assert left.advice.startswith("another RDMA device is called rail0; give it another name")
    assert "mlx5_0 becomes rail0" not in core.heard


def test_where_no_rdma_core_is_loaded_the_step_is_skipped(place: Host) -> None:
    found = compare(place.machine, wanted())
    assert found.changes == ()
    assert {skipped.reason for skipped in found.skipped} == {
        "no RDMA core is loaded here",
        "eth0 has no RDMA device here",
        "eth1 has no RDMA device here",
    }


def test_another_plan_takes_the_rules_away(host: tuple[Host, RdmaCore]) -> None:
    place, _ = host
    apply(place.machine, wanted(), place.records)
    by_name = list_settings(node_plan(P2P, "[{netdev: eth0}, {netdev: eth1}]"), {"rdma"})
    assert [change.subject for change in compare(place.machine, by_name).changes if change.action == "remove"] == [
        f"old file {file.RDMA_RULES}"
    ]
    apply(place.machine, by_name, place.records)
    assert not place.machine.locate(file.RDMA_RULES).exists()
