"""Kernel modules: loaded by the NIC's PCI ids, kept for the next boot."""

from collections.abc import Sequence

import pytest

from tests.host.places import Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import grow, with_programs
from trackbed.host.kinds import module
from trackbed.host.setting import Setting
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import apply, undo
from trackbed.host.transaction.compare import compare

PORTS = '[{pci: "0000:18:00.0", netdev: eth0}, null]'


def test_a_module_that_is_not_loaded_is_told(place: Host) -> None:
    node = node_plan(P2P, PORTS)._replace(nic="15b3:1021")
    grow(place.machine.root, {"/sys/module/mlx5_core/refcnt": "1\n", "/sys/module/ib_uverbs/refcnt": "1\n"})
    changes = compare(place.machine, iter_settings(node, {"drivers"})).changes
    assert [(change.subject, change.advice.partition(";")[0]) for change in changes] == [
        ("kernel module mlx5_ib", "modprobe mlx5_ib"),
        ("kernel module rdma_ucm", "modprobe rdma_ucm"),
    ]


KERNEL = "6.8.0-51-generic"


def module_host(place: Host, modules: str) -> tuple[Host, list[str]]:
    """A host whose kernel has these modules to load, and mlx5_core and ib_uverbs loaded."""
    root = place.machine.root
    grow(root, {"/sys/module/mlx5_core/refcnt": "1\n", "/sys/module/ib_uverbs/refcnt": "1\n"})
    grow(root, {"/proc/sys/kernel/osrelease": f"{KERNEL}\n", "/usr/lib/systemd/systemd-modules-load": ""})

    def modprobe(argv: Sequence[str]) -> str | None:
        if argv[-1] not in modules.split():
            return f"modprobe: FATAL: Module {argv[-1]} not found in directory /lib/modules/{KERNEL}"
        if "--dry-run" not in argv:
            grow(root, {f"/sys/module/{argv[-1]}/refcnt": "0\n"})
        return None

    host, runner = with_programs(place, modprobe=modprobe)
    return host, runner.ran


def modules_wanted(nic: str = "15b3:1021") -> tuple[Setting, ...]:
    return iter_settings(node_plan(P2P, PORTS)._replace(nic=nic), {"drivers"})


def test_missing_modules_are_loaded_now_and_at_each_boot(place: Host) -> None:
    host, ran = module_host(place, "mlx5_ib rdma_ucm")
    shown = [change.advice for change in compare(host.machine, modules_wanted()).changes]
    assert "apply runs: modprobe mlx5_ib" in shown
    apply(host.machine, modules_wanted(), host.records)
    assert [line for line in ran if "--dry-run" not in line] == ["modprobe mlx5_ib", "modprobe rdma_ucm"]
    lines = host.machine.locate("/etc/modules-load.d/90-trackbed.conf").read_text().splitlines()[1:]
    assert lines == ["mlx5_core", "mlx5_ib", "ib_uverbs", "rdma_ucm"]
    assert compare(host.machine, modules_wanted()).changes == ()
    undo(host.machine, host.records)
    assert not host.machine.locate("/etc/modules-load.d/90-trackbed.conf").exists()


def test_a_module_that_this_kernel_does_not_have_stops_no_other(place: Host) -> None:
    host, _ = module_host(place, "rdma_ucm")
    (left,) = apply(host.machine, modules_wanted(), host.records).remaining.changes
    assert (left.subject, left.operations) == ("kernel module mlx5_ib", ())
    assert "install the NIC's driver for this kernel" in left.advice


def test_a_module_that_is_built_in_is_not_loaded(place: Host) -> None:
    host, ran = module_host(place, "mlx5_ib")
    builtin = "kernel/drivers/infiniband/core/rdma_ucm.ko\n"
    grow(host.machine.root, {f"/lib/modules/{KERNEL}/modules.builtin": builtin})
    apply(host.machine, modules_wanted(), host.records)
    assert "modprobe rdma_ucm" not in ran


def test_infiniband_has_interfaces_and_tools_of_its_own() -> None:
    node = node_plan(P2P, PORTS)
    node = node._replace(nic="15b3:1021", common=node.common._replace(link_type="infiniband"))
    wants = [setting.want for setting in iter_settings(node, {"drivers"})]
    assert {module.Want("ib_umad"), module.Want("ib_ipoib")} <= set(wants)


def test_the_shared_device_plugin_finds_a_umad_file_where_pods_share_ports() -> None:
    node = node_plan(P2P, PORTS)._replace(nic="15b3:1021")
    for mode, wanted in (("macvlan", True), ("move", False)):
        settings = iter_settings(node._replace(common=node.common._replace(pod_mode=mode)), {"drivers"})
        assert (module.Want("ib_umad") in [setting.want for setting in settings]) == wanted


@pytest.mark.support("NIC driver", "ionic", "modelled", "its modules are loaded and kept, by PCI vendor")
@pytest.mark.support("NIC driver", "efa", "modelled", "its module is loaded and kept, by PCI ids")
@pytest.mark.parametrize(
    ("nic", "modules"),
    [
        pytest.param(None, [], id="not named"),
        pytest.param("15b3:1021", ["mlx5_core", "mlx5_ib", "ib_uverbs", "rdma_ucm"], id="NVIDIA"),
        pytest.param("14e4:1760", ["bnxt_en", "bnxt_re", "ib_uverbs", "rdma_ucm"], id="Broadcom"),
        pytest.param("8086:1592", ["ice", "irdma", "ib_uverbs", "rdma_ucm"], id="Intel's E810"),
        pytest.param("8086:37d0", ["i40e", "irdma", "ib_uverbs", "rdma_ucm"], id="Intel's X722"),
        pytest.param("8086:10c9", [], id="a NIC of Intel's without RDMA"),
        pytest.param("1dd8:1002", ["ionic", "ionic_rdma", "ib_uverbs", "rdma_ucm"], id="Pensando"),
        pytest.param("1d0f:efa2", ["efa", "ib_uverbs", "rdma_ucm"], id="EFA"),
        pytest.param("1af4:1041", [], id="a vendor whose modules are not known"),
    ],
)
def test_modules_are_wanted_by_the_nics_vendor(nic: str | None, modules: list[str]) -> None:
    wants = [setting.want for setting in iter_settings(node_plan(P2P, PORTS)._replace(nic=nic), {"drivers"})]
    assert [want.name for want in wants if isinstance(want, module.Want)] == modules
