import errno

import pytest

from tests.host.kernel import RdmaCore, speak_to
from tests.host.places import Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import everything_below, grow, grub_host, nic, reboot
from trackbed.host import rdma_core
from trackbed.host.kinds import file
from trackbed.host.kinds.bootloader import GRUB_FILE
from trackbed.host.setting import Setting
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import ApplyError, apply, undo
from trackbed.host.transaction.compare import compare
from trackbed.kernel.netlink.rdma import build_rename_device

PORTS = '[{pci: "0000:18:00.0", netdev: eth0}, {pci: "0000:3a:00.0", netdev: eth1}]'


def wanted(mode: str = "exclusive") -> tuple[Setting, ...]:
    spec = f"  rdma: {{namespaceMode: {mode}}}\n  names: {{netdev: keep}}\n"
    return iter_settings(node_plan(P2P, PORTS, spec=spec), {"rdma"})


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
    (left,) = apply(place.machine, wanted(), place.records).remaining.changes
    assert (left.subject, left.have, left.want, left.reboot) == ("RDMA namespace mode", "shared", "exclusive", True)
    assert left.advice.startswith("other network namespaces exist")
    assert "mode 0" not in core.heard


def test_a_mode_that_a_reboot_did_not_move_asks_for_no_second_reboot(host: tuple[Host, RdmaCore]) -> None:
    place, _ = host
    grow(place.machine.root, {"/run/netns/blue": ""})
    (left,) = apply(place.machine, wanted(), place.records).remaining.changes
    assert left.reboot
    grow(place.machine.root, {"/proc/stat": "cpu 0\nbtime 4102444800\n"})  # the host booted after the file was written
    (left,) = apply(place.machine, wanted(), place.records).remaining.changes
    assert (left.subject, left.reboot, left.operations) == ("RDMA namespace mode", False, ())
    assert "another reboot changes nothing" in left.advice


def early_host(place: Host, files: dict[str, str]) -> tuple[Host, list[str]]:
    grow(place.machine.root, files)
    made, runner = grub_host(place)
    return made, runner.ran


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"/usr/lib/dracut/modules.d/50rdma/module-setup.sh": ""}, id="dracut"),
        pytest.param({"/etc/initramfs-tools/modules": "# mine\nib_uverbs\n"}, id="initramfs-tools"),
    ],
)
def test_where_the_initramfs_loads_rdma_the_mode_is_a_kernel_argument_too(
    host: tuple[Host, RdmaCore], files: dict[str, str]
) -> None:
    place, ran = early_host(host[0], files)
    before = everything_below(place.machine.root)
    (left,) = apply(place.machine, wanted(), place.records).remaining.changes
    assert (left.reboot, ran) == (True, ["update-grub"])
    assert "ib_core.netns_mode=0" in place.machine.locate("/boot/grub/grub.cfg").read_text()
    reboot(place.machine.root)
    assert compare(place.machine, wanted()).changes == ()
    undo(place.machine, place.records)
    assert everything_below(place.machine.root).keys() == before.keys()
    assert "ib_core" not in place.machine.locate("/boot/grub/grub.cfg").read_text()


def test_the_modes_argument_stands_beside_the_fabrics(host: tuple[Host, RdmaCore]) -> None:
    place, _ = early_host(host[0], {"/usr/lib/dracut/modules.d/50rdma/module-setup.sh": ""})
    spec = "  names: {netdev: keep}\n  kernel: {arguments: [nosmt]}\n"
    both = iter_settings(node_plan(P2P, PORTS, spec=spec), {"cmdline", "rdma"})
    apply(place.machine, both, place.records)
    assert 'DEFAULT nosmt ib_core.netns_mode=0"' in place.machine.locate(GRUB_FILE).read_text()
    apply(place.machine, wanted(), place.records)
    assert 'DEFAULT ib_core.netns_mode=0"' in place.machine.locate(GRUB_FILE).read_text()


def test_where_the_initramfs_loads_no_rdma_the_boot_loader_is_left_alone(host: tuple[Host, RdmaCore]) -> None:
    place, ran = early_host(host[0], {"/etc/initramfs-tools/modules": "# ib_uverbs\nvirtio_net\n"})
    apply(place.machine, wanted(), place.records)
    assert ran == []


def test_for_the_sriov_operator_the_mode_is_a_kernel_argument_whatever_the_initramfs_loads(
    host: tuple[Host, RdmaCore],
) -> None:
    place, ran = early_host(host[0], {"/etc/initramfs-tools/modules": "virtio_net\n"})
    spec = "  names: {netdev: keep}\n  kubernetes: {stack: network-operator-sriov}\n"
    settings = list(iter_settings(node_plan(P2P, PORTS, spec=spec), {"rdma"}))
    apply(place.machine, settings, place.records)
    assert ran == ["update-grub"]
    assert "ib_core.netns_mode=0" in place.machine.locate("/boot/grub/grub.cfg").read_text()


def add_process(place: Host, pid: int, name: str, inode: int, *opened: str) -> None:
    folder = place.machine.root / f"proc/{pid}"
    grow(folder, {"comm": f"{name}\n"})
    for path, target in (("ns/net", f"net:[{inode}]"), *((f"fd/{number}", to) for number, to in enumerate(opened))):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).symlink_to(target)


@pytest.mark.parametrize(
    ("process", "reason"),
    [
        pytest.param(
            ("k8s-rdma-shared", 4026531840), "k8s-rdma-shared-dev-plugin runs (process 77)", id="the shared plugin"
        ),
        pytest.param(
            ("python", 4026532999, "/dev/null", "/dev/infiniband/uverbs1"),
            "process 77 (python) has /dev/infiniband/uverbs1 open",
            id="a container with a device",
        ),
        pytest.param(("slurmd", 4026531840, "/dev/infiniband/uverbs0"), "", id="a process of the host"),
        pytest.param(("nginx", 4026532999, "/dev/null"), "", id="a container without a device"),
        pytest.param(("k8s-rdma-shared", 4026532999), "", id="a process of a user with the plugin's name"),
    ],
)
def test_devices_that_are_shared_are_not_taken_away(
    host: tuple[Host, RdmaCore], process: tuple[str, int, *tuple[str, ...]], reason: str
) -> None:
    place, core = host
    add_process(place, 1, "systemd", 4026531840)
    add_process(place, 77, *process)
    user = 65534 if process == ("k8s-rdma-shared", 4026532999) else 0
    grow(place.machine.root, {"/proc/77/status": f"Name:\t{process[0]}\nUid:\t{user}\t{user}\t{user}\t{user}\n"})
    result = apply(place.machine, wanted(), place.records)
    refused = {change.subject: change.advice for change in result.remaining.changes if not change.reboot}
    if reason:
        assert set(refused) == {f"file {file.RDMA_MODPROBE}", "RDMA namespace mode"}
        assert all(reason in advice and "namespaceMode shared" in advice for advice in refused.values())
        assert not place.machine.locate(file.RDMA_MODPROBE).exists()
        assert "mode 0" not in core.heard
    else:
        assert (refused, place.machine.locate(file.RDMA_MODPROBE).exists()) == ({}, True)


def test_neither_does_the_kernels_argument_take_them_away(host: tuple[Host, RdmaCore]) -> None:
    place, ran = early_host(host[0], {"/usr/lib/dracut/modules.d/50rdma/module-setup.sh": ""})
    add_process(place, 77, "k8s-rdma-shared", 4026531840)
    apply(place.machine, wanted(), place.records)
    assert ran == []


def test_pods_with_devices_of_their_own_are_no_sharers(host: tuple[Host, RdmaCore]) -> None:
    place, _ = host
    grow(place.machine.root, {"/sys/module/ib_core/parameters/netns_mode": "N\n"})
    add_process(place, 1, "systemd", 4026531840)
    add_process(place, 77, "python", 4026532999, "/dev/infiniband/uverbs1")
    assert apply(place.machine, wanted(), place.records).remaining.changes == ()
    assert place.machine.locate(file.RDMA_MODPROBE).exists()


def test_sharing_is_no_obstacle_to_shared_mode(host: tuple[Host, RdmaCore]) -> None:
    place, _ = host
    add_process(place, 77, "k8s-rdma-shared", 4026531840)
    assert apply(place.machine, wanted("shared"), place.records).remaining.changes == ()


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
    node = node_plan(P2P, PORTS, spec="  names: {netdev: keep}\n")
    both = iter_settings(node, {"rdma", "qos"})
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
    advice = [change.advice for change in compare(place.machine, wanted()).changes if not change.operations]
    assert advice == [
        "run on this host: rdma system set netns exclusive",
        "run on this host: rdma dev set mlx5_0 name rail0",
        "run on this host: rdma dev set mlx5_1 name rail1",
    ]


def test_a_captured_tree_is_never_told_of_by_this_hosts_kernel(place: Host) -> None:
    assert rdma_core.open_socket(place.machine) is None
    grow(place.machine.root, {"/proc/sys/kernel/random/boot_id": "6e4b6a9c-0000-0000-0000-000000000000\n"})
    assert rdma_core.open_socket(place.machine) is None
    assert rdma_core.read_device_indexes(place.machine) == {}
    assert (
        rdma_core.send_message(place.machine, build_rename_device(0, "x")) == "this kernel's RDMA core cannot be asked"
    )


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
    present = {change.subject: change.have for change in compare(place.machine, wanted()).changes}
    assert present["RDMA device of eth0"] == "rxe0"


def test_a_software_device_in_a_pod_whose_interface_has_the_same_name_is_another(host: tuple[Host, RdmaCore]) -> None:
    place, _ = host
    (place.machine.root / "sys/class/net/eth0/device").unlink()
    guids = {"rxe0": "ba3f:d2ff:fe00:0000", "rail0v1": "0200:00ff:fe00:0003"}
    for name, guid in guids.items():
        folder = f"/sys/class/infiniband/{name}"
        grow(place.machine.root, {f"{folder}/ports/1/gid_attrs/ndevs/0": "eth0\n", f"{folder}/node_guid": f"{guid}\n"})
    present = {change.subject: change.have for change in compare(place.machine, wanted()).changes}
    assert present["RDMA device of eth0"] == "rxe0"


def test_a_name_that_another_device_has_is_left_to_a_person(host: tuple[Host, RdmaCore]) -> None:
    place, core = host
    nic(place.machine.root, "eth9", "0000:5a:00.0", rdma="rail0")
    (left,) = apply(place.machine, wanted(), place.records).remaining.changes
    assert left.advice.startswith("another RDMA device is called rail0; give it another name")
    assert "mlx5_0 becomes rail0" not in core.heard


def test_where_no_rdma_core_is_loaded_the_step_is_skipped(place: Host) -> None:
    comparison = compare(place.machine, wanted())
    assert comparison.changes == ()
    assert {skipped.reason for skipped in comparison.skipped} == {
        "no RDMA core is loaded here",
        "eth0 has no RDMA device here",
        "eth1 has no RDMA device here",
    }


def test_another_plan_takes_the_rules_away(host: tuple[Host, RdmaCore]) -> None:
    place, _ = host
    apply(place.machine, wanted(), place.records)
    by_name = iter_settings(node_plan(P2P, "[{netdev: eth0}, {netdev: eth1}]"), {"rdma"})
    assert [change.subject for change in compare(place.machine, by_name).changes if change.action == "remove"] == [
        f"old file {file.RDMA_RULES}"
    ]
    apply(place.machine, by_name, place.records)
    assert not place.machine.locate(file.RDMA_RULES).exists()
