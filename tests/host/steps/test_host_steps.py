import pytest

from tests.host.steps.fabrics import FLAT, P2P, node_plan
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.wire import read_node, write_node
from trackbed.host.kinds import (
    attribute,
    file,
    huge_pages,
    kernel_arguments,
    rdma_name,
    rdma_namespaces,
    rdma_tos,
    vf_count,
    vf_guard,
    vf_mtu,
    vf_probe,
)
from trackbed.host.kinds.dcb import DcbDscp, DcbEts, DcbPfc
from trackbed.host.steps import list_settings

PORTS = '["0000:18:00.0", "0000:3a:00.0"]'


@pytest.mark.parametrize(
    ("more", "groups", "iommu"),
    [
        pytest.param("", None, False, id="nothing asked"),
        pytest.param("  vfs: {count: 4}\n", (), True, id="VFs need the IOMMU"),
        pytest.param("  vfs: {count: 4}\n  kernel: {iommu: leave}\n", None, False, id="unless it shall be left"),
        pytest.param("  kernel: {iommu: passthrough}\n", (), True, id="asked for"),
        pytest.param("  kernel: {arguments: [pci=realloc]}\n", ("pci=realloc",), False, id="any argument"),
        pytest.param(
            "  kernel: {hugepages: [{size: 1G, count: 4}, {size: 2M, count: 64}]}\n",
            ("default_hugepagesz=1G", "hugepagesz=1G hugepages=4", "hugepagesz=2M hugepages=64"),
            False,
            id="huge pages",
        ),
    ],
)
def test_kernel_arguments_follow_from_the_plan(more: str, groups: tuple[str, ...] | None, *, iommu: bool) -> None:
    wants = [setting.want for setting in list_settings(node_plan(P2P, PORTS, more=more), {"cmdline"})]
    arguments = [want for want in wants if isinstance(want, kernel_arguments.Want)]
    assert arguments == ([] if groups is None else [kernel_arguments.Want(groups, iommu)])


def test_huge_pages_are_looked_for_after_the_boot() -> None:
    more = "  kernel: {hugepages: [{size: 2M, count: 64}]}\n"
    wants = [setting.want for setting in list_settings(node_plan(P2P, more=more), {"cmdline"})]
    assert huge_pages.Want(2048, 64) in wants


@pytest.mark.parametrize(
    ("more", "code"),
    [
        pytest.param('  kernel: {arguments: ["a b"]}\n', "bad-argument", id="a blank"),
        pytest.param("  kernel: {arguments: ['a=\"$(reboot)\"']}\n", "bad-argument", id="a command for the shell"),
        pytest.param("  kernel: {isolatedCpus: all}\n", "bad-cpus", id="no list of CPUs"),
        pytest.param("  kubelet: {reservedCpus: 0..3}\n", "bad-cpus", id="no list of reserved CPUs"),
        pytest.param("  kernel: {hugepages: [{count: 1}, {count: 2}]}\n", "bad-hugepages", id="a size twice"),
    ],
)
def test_what_cannot_be_said_to_a_kernel_or_kubelet_is_refused(more: str, code: str) -> None:
    with pytest.raises(SpecError) as error:
        node_plan(P2P, more=more)
    assert [problem.code for problem in error.value.problems] == [code]


def test_what_the_kernel_and_kubelet_are_asked_travels_with_the_nodes_plan() -> None:
    more = (
        "  kernel: {hugepages: [{size: 2M, count: 64}], isolatedCpus: 4-7}\n"
        "  kubelet: {topologyManager: restricted, reservedCpus: 0-3}\n"
    )
    node = node_plan(P2P, PORTS, more=more)
    assert read_node(write_node(node)) == node


def test_a_plan_that_asks_nothing_of_them_is_written_as_ever() -> None:
    written = write_node(node_plan(P2P, PORTS))
    assert b"kernelName" not in written
    assert b'"kernel"' not in written
    assert b'"kubelet"' not in written


@pytest.mark.parametrize(
    ("more", "mode", "option"),
    [
        pytest.param("  pods: {mode: move}\n", "exclusive", 0, id="ports that move"),
        pytest.param("  pods: {mode: macvlan}\n", "shared", 1, id="shared ports"),
    ],
)
def test_the_rdma_mode_is_wanted_now_and_at_the_next_boot(more: str, mode: str, option: int) -> None:
    wants = [setting.want for setting in list_settings(node_plan(FLAT, PORTS, more=more), {"rdma"})]
    assert rdma_namespaces.Want(mode) in wants
    assert any(isinstance(want, file.Want) and f"netns_mode={option}\n" in want.content for want in wants)


def test_rdma_devices_are_called_as_the_fabric_says() -> None:
    wants = [s.want for s in list_settings(node_plan(P2P, PORTS, more="  names: {rdma: 'roce{number}'}\n"), {"rdma"})]
    assert [want for want in wants if isinstance(want, rdma_name.Want)] == [
        rdma_name.Want("rail0", "roce1"),
        rdma_name.Want("rail1", "roce2"),
    ]


@pytest.mark.parametrize(("more", "count"), [("", 0), ("  vfs: {count: 4}\n", 2)], ids=["without VFs", "with VFs"])
def test_vfs_are_counted_only_where_planned(more: str, count: int) -> None:
    wants = [setting.want for setting in list_settings(node_plan(P2P, PORTS, more=more), {"vfs"})]
    assert sum(isinstance(want, vf_count.Want) for want in wants) == count


def test_each_vf_is_guarded_and_sized_after_its_ports_vfs_are_made() -> None:
    more = "  vfs: {count: 2, mtu: 4200, trust: true, spoofCheck: false}\n"
    wants = [setting.want for setting in list_settings(node_plan(P2P, PORTS, more=more), {"vfs"}) if setting.rail == 0]
    pci = "0000:18:00.0"
    assert wants == [
        vf_probe.Want("rail0", pci),
        vf_count.Want("rail0", pci, 2),
        vf_guard.Want("rail0", 0, trust=True, spoof_check=False),
        vf_mtu.Want("rail0", pci, 0, 4200),
        vf_guard.Want("rail0", 1, trust=True, spoof_check=False),
        vf_mtu.Want("rail0", pci, 1, 4200),
    ]


def test_vfs_are_neither_trusted_nor_smaller_than_their_port_unless_the_fabric_says_so() -> None:
    wants = [s.want for s in list_settings(node_plan(P2P, PORTS, more="  vfs: {count: 1}\n"), {"vfs"}) if s.rail == 0]
    assert wants[2:] == [
        vf_guard.Want("rail0", 0, trust=False, spoof_check=True),
        vf_mtu.Want("rail0", "0000:18:00.0", 0, 9000),
    ]


def test_infinibands_vfs_are_counted_and_nothing_more() -> None:
    more = "  linkType: infiniband\n  vfs: {count: 4}\n"
    wants = [setting.want for setting in list_settings(node_plan("{scheme: none}", PORTS, more=more), {"vfs"})]
    assert {type(want) for want in wants} == {vf_probe.Want, vf_count.Want}


@pytest.mark.parametrize(
    ("qos", "wanted"),
    [
        pytest.param(
            "{}",
            [
                DcbDscp("rail0", ((26, 3), (48, 6))),
                DcbPfc("rail0", (3,)),
                DcbEts("rail0", 3, 6),
                rdma_tos.Want("rail0", 106),
            ],
            id="as experts take it",
        ),
        pytest.param(
            "{dscp: 24, priority: 4, cnpDscp: 46, pfc: false, ecn: false}",
            [
                DcbDscp("rail0", ((24, 4), (46, 5))),
                DcbPfc("rail0", ()),
                DcbEts("rail0", 4, 5),
                rdma_tos.Want("rail0", 96),
            ],
            id="as the Fabric says",
        ),
        pytest.param(
            "{cnpDscp: 30}",
            [DcbDscp("rail0", ((26, 3), (30, 3))), DcbPfc("rail0", (3,)), rdma_tos.Want("rail0", 106)],
            id="notices with the priority of the traffic they are about",
        ),
    ],
)
def test_what_drivers_with_dcb_are_asked_follows_from_the_plan(qos: str, wanted: list[object]) -> None:
    wants = [s.want for s in list_settings(node_plan(P2P, PORTS, more=f"  qos: {qos}\n"), {"qos"}) if s.rail == 0]
    assert [want for want in wants if not isinstance(want, attribute.Want)] == wanted


@pytest.mark.parametrize(
    "line",
    [
        "put /sys/bus/pci/devices/0000:18:00.0/sriov_drivers_autoprobe 1",
        "vfs /sys/bus/pci/devices/0000:18:00.0 4",
        "guard rail0 /sys/bus/pci/devices/0000:18:00.0 off on 9000",
        "dscp rail0 26:3 48:6",
        "pfc rail0 all:off 3:on",
        "ets rail0 3 6",
        "tos roce1 106",
    ],
)
def test_all_that_the_kernel_forgets_is_set_again_at_boot(line: str) -> None:
    more = "  vfs: {count: 4}\n  names: {rdma: 'roce{number}'}\n"
    wants = [setting.want for setting in list_settings(node_plan(P2P, PORTS, more=more), {"qos"})]
    script = next(want.content for want in wants if isinstance(want, file.Want) and want.path == file.BOOT_SCRIPT)
    assert line in script.splitlines()


def test_infiniband_has_no_roce_settings_but_its_vfs_are_made_at_boot() -> None:
    more = "  linkType: infiniband\n  vfs: {count: 4}\n"
    wants = [setting.want for setting in list_settings(node_plan("{scheme: none}", PORTS, more=more), {"qos"})]
    assert not [want for want in wants if isinstance(want, attribute.Want)]
    assert [want.path for want in wants if isinstance(want, file.Want)] == [
        file.BOOT_SCRIPT,
        file.BOOT_UNIT,
        file.BOOT_WANTED,
    ]


def test_a_unit_is_named_as_systemd_escapes_it() -> None:
    more = "  vfs: {count: 4}\n  names: {netdev: 'rail-{rail}'}\n"
    wants = [setting.want for setting in list_settings(node_plan(P2P, PORTS, more=more), {"qos"})]
    unit = next(want.content for want in wants if isinstance(want, file.Want) and want.path == file.BOOT_UNIT)
    assert r"sys-subsystem-net-devices-rail\x2d0.device" in unit


def test_every_setting_says_why_it_is_wanted() -> None:
    more = "  vfs: {count: 4}\n  kernel: {isolatedCpus: 4-7}\n  kubelet: {reservedCpus: 0-3}\n"
    silent = [setting for setting in list_settings(node_plan(P2P, PORTS, more=more)) if len(setting.why.split()) < 4]
    assert silent == []
