import pytest

from tests.host.steps.fabrics import FLAT, P2P, node_plan
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.node_document import decode_node, encode_node
from trackbed.host.kinds import (
    attribute,
    file,
    huge_pages,
    kernel_arguments,
    rdma_name,
    rdma_namespaces,
    rdma_tos,
    vf_address,
    vf_count,
    vf_guard,
    vf_mtu,
    vf_probe,
)
from trackbed.host.kinds.dcb_wants import DcbDscp, DcbEts, DcbPfc
from trackbed.host.render import FORMATS
from trackbed.host.steps import iter_settings

PORTS = '["0000:18:00.0", "0000:3a:00.0"]'


@pytest.mark.parametrize(
    ("spec", "groups", "iommu"),
    [
        pytest.param("", None, False, id="nothing asked"),
        pytest.param("  vfs: {count: 4}\n", None, False, id="VFs in containers need no IOMMU"),
        pytest.param("  vfs: {count: 4}\n  kernel: {iommu: auto}\n", None, False, id="nor with auto"),
        pytest.param("  kernel: {iommu: passthrough}\n", (), True, id="asked for"),
        pytest.param("  kernel: {arguments: [pci=realloc]}\n", ("pci=realloc",), False, id="any argument"),
        pytest.param(
            "  kernel: {arguments: ['pci=config_acs=xx110x1@pci:0:0;x0@0000:10:00.0']}\n",
            ("pci=config_acs=xx110x1@pci:0:0;x0@0000:10:00.0",),
            False,
            id="an argument whose value is a list of assignments",
        ),
        pytest.param(
            "  kernel: {hugepages: [{size: 1G, count: 4}, {size: 2M, count: 64}]}\n",
            ("default_hugepagesz=1G", "hugepagesz=1G hugepages=4", "hugepagesz=2M hugepages=64"),
            False,
            id="huge pages",
        ),
    ],
)
def test_kernel_arguments_follow_from_the_plan(spec: str, groups: tuple[str, ...] | None, *, iommu: bool) -> None:
    wants = [setting.want for setting in iter_settings(node_plan(P2P, PORTS, spec=spec), {"cmdline"})]
    arguments = [want for want in wants if isinstance(want, kernel_arguments.Want)]
    assert arguments == ([] if groups is None else [kernel_arguments.Want(groups, iommu)])


def test_huge_pages_are_looked_for_after_the_boot() -> None:
    spec = "  kernel: {hugepages: [{size: 2M, count: 64}]}\n"
    wants = [setting.want for setting in iter_settings(node_plan(P2P, spec=spec), {"cmdline"})]
    assert huge_pages.Want(2048, 64) in wants


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        pytest.param('  kernel: {arguments: ["a b"]}\n', "bad-argument", id="a blank"),
        pytest.param("  kernel: {arguments: ['a=\"$(reboot)\"']}\n", "bad-argument", id="a command for the shell"),
        pytest.param("  kernel: {isolatedCpus: all}\n", "bad-cpus", id="no list of CPUs"),
        pytest.param("  kubelet: {reservedCpus: 0..3}\n", "bad-cpus", id="no list of reserved CPUs"),
        pytest.param("  kernel: {hugepages: [{count: 1}, {count: 2}]}\n", "bad-hugepages", id="a size twice"),
    ],
)
def test_what_cannot_be_said_to_a_kernel_or_kubelet_is_refused(spec: str, code: str) -> None:
    with pytest.raises(SpecError) as error:
        node_plan(P2P, spec=spec)
    assert [problem.code for problem in error.value.problems] == [code]


def test_what_the_kernel_and_kubelet_are_asked_travels_with_the_nodes_plan() -> None:
    spec = (
        "  kernel: {hugepages: [{size: 2M, count: 64}], isolatedCpus: 4-7}\n"
        "  kubelet: {topologyManager: restricted, reservedCpus: 0-3}\n"
    )
    node = node_plan(P2P, PORTS, spec=spec)
    assert decode_node(encode_node(node)) == node


def test_a_plan_that_asks_nothing_of_them_is_written_as_ever() -> None:
    written = encode_node(node_plan(P2P, PORTS))
    assert b"kernelName" not in written
    assert b'"kernel"' not in written
    assert b'"kubelet"' not in written


@pytest.mark.parametrize(
    ("spec", "mode", "option"),
    [
        pytest.param("  pods: {mode: move}\n", "exclusive", 0, id="ports that move"),
        pytest.param("  pods: {mode: macvlan}\n", "shared", 1, id="shared ports"),
    ],
)
def test_the_rdma_mode_is_wanted_now_and_at_the_next_boot(spec: str, mode: str, option: int) -> None:
    wants = [setting.want for setting in iter_settings(node_plan(FLAT, PORTS, spec=spec), {"rdma"})]
    assert rdma_namespaces.Want(mode) in wants
    assert any(isinstance(want, file.Want) and f"netns_mode={option}\n" in want.content for want in wants)


def test_rdma_devices_are_called_as_the_fabric_says() -> None:
    wants = [s.want for s in iter_settings(node_plan(P2P, PORTS, spec="  names: {rdma: 'roce{number}'}\n"), {"rdma"})]
    assert [want for want in wants if isinstance(want, rdma_name.Want)] == [
        rdma_name.Want("rail0", "roce1"),
        rdma_name.Want("rail1", "roce2"),
    ]


@pytest.mark.parametrize(("spec", "count"), [("", 0), ("  vfs: {count: 4}\n", 2)], ids=["without VFs", "with VFs"])
def test_vfs_are_counted_only_where_planned(spec: str, count: int) -> None:
    wants = [setting.want for setting in iter_settings(node_plan(P2P, PORTS, spec=spec), {"vfs"})]
    assert sum(isinstance(want, vf_count.Want) for want in wants) == count


def test_each_vf_is_guarded_and_sized_after_its_ports_vfs_are_made() -> None:
    spec = "  vfs: {count: 2, mtu: 4200, trust: true, spoofCheck: false}\n"
    wants = [setting.want for setting in iter_settings(node_plan(P2P, PORTS, spec=spec), {"vfs"}) if setting.rail == 0]
    pci = "0000:18:00.0"
    assert wants == [
        vf_probe.Want("rail0", pci),
        vf_count.Want("rail0", pci, 2),
        vf_address.Want("rail0", pci, 0, "0e:7d:00:00:40:00"),
        vf_guard.Want("rail0", 0, trust=True, spoof_check=False),
        vf_mtu.Want("rail0", pci, 0, 4200),
        vf_address.Want("rail0", pci, 1, "0e:7d:00:00:40:01"),
        vf_guard.Want("rail0", 1, trust=True, spoof_check=False),
        vf_mtu.Want("rail0", pci, 1, 4200),
    ]


def test_vfs_are_neither_trusted_nor_smaller_than_their_port_unless_the_fabric_says_so() -> None:
    wants = [s.want for s in iter_settings(node_plan(P2P, PORTS, spec="  vfs: {count: 1}\n"), {"vfs"}) if s.rail == 0]
    assert wants[2:] == [
        vf_address.Want("rail0", "0000:18:00.0", 0, "0e:7d:00:00:40:00"),
        vf_guard.Want("rail0", 0, trust=False, spoof_check=True),
        vf_mtu.Want("rail0", "0000:18:00.0", 0, 9000),
    ]


def test_infinibands_vfs_are_counted_and_nothing_more() -> None:
    spec = "  linkType: infiniband\n  vfs: {count: 4}\n"
    wants = [setting.want for setting in iter_settings(node_plan("{scheme: none}", PORTS, spec=spec), {"vfs"})]
    assert {type(want) for want in wants} == {file.Want, vf_probe.Want, vf_count.Want, vf_address.Want}
    assert "0e7d:00ff:fe00:4003" in {want.address for want in wants if isinstance(want, vf_address.Want)}


@pytest.mark.parametrize(
    ("qos", "wanted"),
    [
        pytest.param(
            "{}",
            [
                DcbEts("rail0", 3, 6),
                DcbPfc("rail0", (3,)),
                DcbDscp("rail0", ((26, 3), (48, 6)), 3),
                rdma_tos.Want("rail0", 106),
            ],
            id="as experts take it",
        ),
        pytest.param(
            "{dscp: 24, priority: 4, cnpDscp: 46, pfc: false, ecn: false}",
            [
                DcbEts("rail0", 4, 5),
                DcbPfc("rail0", ()),
                DcbDscp("rail0", ((24, 4), (46, 5)), 4),
                rdma_tos.Want("rail0", 96),
            ],
            id="as the Fabric says",
        ),
        pytest.param(
            "{cnpDscp: 30}",
            [
                DcbEts("rail0", 3, 3),
                DcbPfc("rail0", (3,)),
                DcbDscp("rail0", ((26, 3), (30, 3)), 3),
                rdma_tos.Want("rail0", 106),
            ],
            id="notices with the priority of the traffic they are about",
        ),
    ],
)
def test_what_drivers_with_dcb_are_asked_follows_from_the_plan(qos: str, wanted: list[object]) -> None:
    wants = [s.want for s in iter_settings(node_plan(P2P, PORTS, spec=f"  qos: {qos}\n"), {"qos"}) if s.rail == 0]
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
        "tos rail0 106",
        "address rail0 /sys/bus/pci/devices/0000:18:00.0 3 0e:7d:00:00:40:03",
    ],
)
def test_all_that_the_kernel_forgets_is_set_again_at_boot(line: str) -> None:
    spec = "  vfs: {count: 4}\n  names: {rdma: 'roce{number}'}\n"
    wants = [setting.want for setting in iter_settings(node_plan(P2P, PORTS, spec=spec), {"qos"})]
    script = next(want.content for want in wants if isinstance(want, file.Want) and want.path == file.BOOT_SCRIPT)
    assert line in [line.strip() for line in script.splitlines()]


def test_infiniband_has_no_roce_settings_but_its_vfs_are_made_at_boot() -> None:
    spec = "  linkType: infiniband\n  vfs: {count: 4}\n"
    wants = [setting.want for setting in iter_settings(node_plan("{scheme: none}", PORTS, spec=spec), {"qos"})]
    assert not [want for want in wants if isinstance(want, attribute.Want)]
    assert [want.path for want in wants if isinstance(want, file.Want)] == [
        file.BOOT_SCRIPT,
        file.PORT_UNIT,
        file.BOOT_TARGET,
        file.BOOT_WANTED,
        file.PORT_RULES,
    ]


def test_a_unit_is_named_as_systemd_escapes_it() -> None:
    spec = "  vfs: {count: 4}\n  names: {netdev: 'rail-{rail}'}\n"
    wants = [setting.want for setting in iter_settings(node_plan(P2P, PORTS, spec=spec), {"qos"})]
    unit = next(want.content for want in wants if isinstance(want, file.Want) and want.path == file.BOOT_TARGET)
    assert r"trackbed-port@rail\x2d0.service" in unit


def test_every_setting_says_why_it_is_wanted() -> None:
    spec = "  vfs: {count: 4}\n  kernel: {isolatedCpus: 4-7}\n  kubelet: {reservedCpus: 0-3}\n"
    silent = [setting for setting in iter_settings(node_plan(P2P, PORTS, spec=spec)) if len(setting.why.split()) < 4]
    assert silent == []


def test_udev_marks_what_shares_a_ports_address_before_the_link_files_are_read() -> None:
    """Representors and subfunctions of switchdev by their port name or auxiliary device, VFs by their PCI function."""
    node = node_plan(P2P, PORTS)
    (rules,) = [s.want for s in iter_settings(node, {"names"}) if isinstance(s.want, file.Want)]
    lines = [line for line in rules.content.splitlines() if not line.startswith("#")]
    assert [line.split(", ")[2:] for line in lines] == [
        [match, 'ENV{TRACKBED_IS_PORT}="0"']
        for match in ('ATTR{phys_port_name}=="*pf[0-9]*"', 'KERNELS=="*.sf.[0-9]*"', 'TEST=="device/physfn"')
    ]
    assert rules.path < "/etc/udev/rules.d/80-net-setup-link.rules"
    assert "Property=!TRACKBED_IS_PORT=0\n" in FORMATS["networkd"](node)["/etc/systemd/network/10-trackbed-rail0.link"]


def test_a_plan_that_knows_ports_by_name_only_needs_no_rules() -> None:
    wants = [setting.want for setting in iter_settings(node_plan(P2P, '["enp1s0", "enp2s0"]'), {"names"})]
    assert [want for want in wants if isinstance(want, file.Want)] == []


def test_networkmanager_is_told_to_leave_vfs_alone_before_there_are_any() -> None:
    node = node_plan(P2P, PORTS, spec="  vfs: {count: 1}\n")
    first = iter_settings(node, {"vfs"})[0].want
    assert isinstance(first, file.Want)
    assert first.needs == ("/usr/sbin/NetworkManager", "/usr/bin/NetworkManager")
    assert [line for line in first.content.splitlines() if not line.startswith("#")] == [
        f'SUBSYSTEM=="net", ACTION=="add|change|move", TEST=="device/physfn/net/{netdev}", ENV{{NM_UNMANAGED}}="1"'
        for netdev in ("rail0", "rail1")
    ]


def test_subfunctions_do_not_get_the_rdma_name_of_their_port() -> None:
    node = node_plan(P2P, PORTS)
    wants = [s.want for s in iter_settings(node, {"rdma"}) if isinstance(s.want, file.Want)]
    (rules,) = [want for want in wants if want.path == file.RDMA_RULES]
    lines = rules.content.splitlines()
    assert lines[1] == 'SUBSYSTEM=="infiniband", KERNELS=="*.sf.[0-9]*", GOTO="trackbed_end"'
    assert lines[-1] == 'LABEL="trackbed_end"'
