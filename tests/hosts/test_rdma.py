from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.chain.fabrics import P2P, node_plan
from tests.hosts.places import Host
from tests.hosts.trees import Scripted, everything_below, grow, nic, with_programs
from trackbed.chain import rdma, settings
from trackbed.chain.setting import Setting
from trackbed.hosts.apply import apply, undo
from trackbed.hosts.compare import compare

PORTS = '[{pci: "0000:18:00.0", netdev: eth0}, {pci: "0000:3a:00.0", netdev: eth1}]'
MODE = "/sys/module/ib_core/parameters/netns_mode"


def wanted(mode: str = "exclusive") -> tuple[Setting, ...]:
    more = f"  rdma: {{namespaceMode: {mode}}}\n  names: {{netdev: keep}}\n"
    return settings(node_plan(P2P, PORTS, more=more), {"rdma"})


@pytest.fixture
def host(place: Host) -> tuple[Host, Scripted]:
    """A host with two RDMA devices, and rdma(8), which renames them in its sysfs."""
    root = place.machine.root
    nic(root, "eth0", "0000:18:00.0", rdma="mlx5_0")
    nic(root, "eth1", "0000:3a:00.0", rdma="mlx5_1")

    def program(argv: Sequence[str]) -> None:
        if argv[0] == "system":
            grow(root, {MODE: "N\n" if argv[3] == "exclusive" else "Y\n"})
            return
        old, new = argv[2], argv[4]
        listed = root / "sys/class/infiniband" / old
        folder = (listed / "device").resolve() / "infiniband"
        listed.rename(listed.with_name(new))
        (folder / old).rename(folder / new)

    return with_programs(place, rdma=program)


def test_mode_and_names_are_set_now_and_for_the_next_boot_and_undone(host: tuple[Host, Scripted]) -> None:
    place, runner = host
    before = everything_below(place.machine.root)
    apply(place.machine, wanted(), place.records)
    assert runner.ran == [
        "rdma system set netns exclusive",
        "rdma dev set mlx5_0 name rail0",
        "rdma dev set mlx5_1 name rail1",
    ]
    assert "options ib_core netns_mode=0" in place.machine.path(rdma.MODPROBE).read_text()
    assert (
        'KERNELS=="0000:3a:00.0", PROGRAM="rdma_rename %k NAME_FIXED rail1"'
        in place.machine.path(rdma.RULES).read_text()
    )
    assert compare(place.machine, wanted()).changes == ()
    assert undo(place.machine, place.records) == ()
    assert everything_below(place.machine.root) == before


def test_a_second_apply_runs_nothing(host: tuple[Host, Scripted]) -> None:
    place, runner = host
    apply(place.machine, wanted(), place.records)
    count = len(runner.ran)
    assert apply(place.machine, wanted(), place.records).changes == ()
    assert len(runner.ran) == count


def test_while_other_namespaces_exist_the_mode_waits_for_the_reboot(host: tuple[Host, Scripted]) -> None:
    place, runner = host
    for number, inode in (("1", 4026531840), ("77", 4026532999), ("78", 4026532999)):
        folder = place.machine.root / f"proc/{number}/ns"
        folder.mkdir(parents=True)
        (folder / "net").symlink_to(f"net:[{inode}]")
    (left,) = apply(place.machine, wanted(), place.records).left.changes
    assert (left.what, left.have, left.want, left.reboot) == ("RDMA namespace mode", "shared", "exclusive", True)
    assert left.advice.startswith("other network namespaces exist")
    assert "rdma system set netns exclusive" not in runner.ran


def test_a_namespace_that_is_only_kept_makes_the_mode_wait_too(host: tuple[Host, Scripted]) -> None:
    place, _ = host
    grow(place.machine.root, {"/run/netns/blue": ""})
    assert [change.what for change in compare(place.machine, wanted()).changes if change.reboot] == [
        "RDMA namespace mode"
    ]


def test_files_below_a_devices_name_are_written_after_it_was_renamed_and_undone_before(
    host: tuple[Host, Scripted],
) -> None:
    place, _ = host
    before = everything_below(place.machine.root)
    node = node_plan(P2P, PORTS, more="  names: {netdev: keep}\n")
    both = settings(node, {"rdma", "qos"})
    apply(place.machine, both, place.records)
    file = "/sys/class/net/eth0/device/infiniband/rail0/tc/1/traffic_class"
    assert place.machine.path(file).read_text() == "106"
    assert compare(place.machine, both).changes == ()
    assert undo(place.machine, place.records) == ()
    after = everything_below(place.machine.root)
    assert after.keys() == before.keys()
    assert {text for path, (text, _) in after.items() if path.endswith("traffic_class")} == {"0"}


def test_without_rdmas_program_the_commands_are_told(host: tuple[Host, Scripted]) -> None:
    place, _ = host
    bare = replace(place.machine, runner=None)
    told = [change.advice for change in compare(bare, wanted()).changes if not change.do]
    assert told == [
        "run on this host: rdma system set netns exclusive",
        "run on this host: rdma dev set mlx5_0 name rail0",
        "run on this host: rdma dev set mlx5_1 name rail1",
    ]


def test_a_name_that_another_device_has_is_left_to_a_person(host: tuple[Host, Scripted]) -> None:
    place, runner = host
    nic(place.machine.root, "eth9", "0000:5a:00.0", rdma="rail0")
    (left,) = apply(place.machine, wanted(), place.records).left.changes
    assert left.advice.startswith("another RDMA device is called rail0; give it another name")
    assert "rdma dev set mlx5_0 name rail0" not in runner.ran


def test_where_no_rdma_core_is_loaded_the_step_is_skipped(place: Host) -> None:
    found = compare(place.machine, wanted())
    assert found.changes == ()
    assert {skipped.reason for skipped in found.skipped} == {
        "no RDMA core is loaded here",
        "eth0 has no RDMA device here",
        "eth1 has no RDMA device here",
    }


def test_another_plan_takes_the_rules_away(host: tuple[Host, Scripted]) -> None:
    place, _ = host
    apply(place.machine, wanted(), place.records)
    by_name = settings(node_plan(P2P, "[{netdev: eth0}, {netdev: eth1}]"), {"rdma"})
    assert [change.what for change in compare(place.machine, by_name).changes if change.action == "remove"] == [
        f"old file {rdma.RULES}"
    ]
    apply(place.machine, by_name, place.records)
    assert not place.machine.path(rdma.RULES).exists()
