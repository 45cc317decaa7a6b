"""Each fault of step drivers, put into a sound server, is what doctor names first; the sound server has none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.doctor.host.sound_metal import (
    DEVICES,
    DMESG,
    GPU,
    MODINFO,
    MODULES,
    NIC,
    NICS,
    NODE,
    NVIDIA,
    PORT,
    Change,
    append_log,
    build_metal,
    build_metal_view,
    combine,
    find_first_fault,
    list_findings,
    list_verdicts,
    name_metal_view,
    replace_file,
    replace_folder,
    replace_link,
    replace_output,
)
from trackbed.doctor.diagnosis import diagnose_nodes, select_finding_to_fix
from trackbed.doctor.view import NodeView

PCI = f"{DEVICES}/{NIC}"
LOADED = ("ib_core", "ib_uverbs", "mlx5_core")
WITHOUT_MLX5_IB = replace_folder("/sys/module", LOADED)
CLOSED = NVIDIA.replace("Open Kernel Module", "x86_64 Kernel Module")
"""The version file of the proprietary modules."""
PEERMEM = replace_file("/sys/module/nvidia_peermem/version", "570.86.15\n")
SWITCHES = combine(
    *(replace_file(f"{DEVICES}/0000:{bus}:00.0/vendor", "0x10de\n") for bus in ("c1", "c2")),
    *(replace_file(f"{DEVICES}/0000:{bus}:00.0/class", "0x068000\n") for bus in ("c1", "c2")),
    lambda host: replace_folder(DEVICES, (*host.folders[DEVICES], "0000:c1:00.0", "0000:c2:00.0"))(host),
)
"""NVSwitches of an HGX H100."""
MANAGER = ("systemctl", "is-active", "nvidia-fabricmanager")
COMM = "nv-fabricmanage\n"
"""The name of its process as the kernel cuts it."""

FAULTS: list[tuple[str, str, Change]] = [
    (
        "driver-secure-boot-rejects-module",
        "not signed",
        combine(WITHOUT_MLX5_IB, append_log("Loading of unsigned module is rejected")),
    ),
    (
        "driver-secure-boot-rejects-module",
        "signed with an unknown key",
        combine(WITHOUT_MLX5_IB, append_log("Loading of module with unavailable key is rejected")),
    ),
    (
        "driver-secure-boot-rejects-module",
        "kept out by lockdown",
        combine(
            WITHOUT_MLX5_IB,
            append_log("Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7"),
        ),
    ),
    (
        "driver-module-missing-for-kernel",
        "after a kernel update",
        combine(
            WITHOUT_MLX5_IB,
            replace_output(MODINFO, f"{MODULES}modinfo: ERROR: Module mlx5_ib not found.\n", 1),
        ),
    ),
    (
        "driver-mixed-trees",
        "two trees",
        replace_output(MODINFO, MODULES.replace("updates/dkms/ib_", "kernel/drivers/infiniband/core/ib_")),
    ),
    (
        "driver-mixed-trees",
        "an unknown symbol",
        append_log("mlx5_ib: Unknown symbol ib_umem_dmabuf_get (err -2)"),
    ),
    ("driver-not-bound", "no driver", replace_link(f"{PCI}/driver", None)),
    (
        "driver-not-bound",
        "kept for a virtual machine",
        combine(
            replace_link(f"{PCI}/driver", "../../../../bus/pci/drivers/vfio-pci"),
            replace_file(f"{PCI}/driver_override", "vfio-pci\n"),
        ),
    ),
    (
        "driver-iommu-page-faults",
        "Intel",
        append_log("DMAR: [DMA Read NO_PASID] Request device [58:00.0] fault addr 0xfd000000 [fault reason 0x06]"),
    ),
    (
        "driver-iommu-page-faults",
        "AMD",
        append_log(
            f"mlx5_core {NIC}: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0021 device={NIC} address=0xfd000000]"
        ),
    ),
    (
        "driver-iommu-page-faults",
        "AMD, of a known function",
        append_log(f"mlx5_core {NIC}: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0021 address=0xfd000000]"),
    ),
    (
        "driver-iommu-page-faults",
        "a GPU",
        append_log(f"DMAR: [DMA Write NO_PASID] Request device [{GPU[5:]}] fault addr 0x0 [fault reason 0x05]"),
    ),
    ("driver-nvidia-library-mismatch", "updated on disk", replace_file("/sys/module/nvidia/version", "565.57.01\n")),
    ("driver-fabric-manager-down", "not started", combine(SWITCHES, replace_output(MANAGER, "inactive\n", 3))),
    (
        "driver-peermem-unknown-symbol",
        "the kernel's own RDMA core",
        combine(
            replace_file("/proc/driver/nvidia/version", CLOSED),
            append_log("nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)"),
        ),
    ),
    ("driver-gpudirect-path-missing", "neither of the two", replace_file("/proc/driver/nvidia/version", CLOSED)),
    ("driver-gpudirect-path-missing", "an old kernel", replace_file("/proc/sys/kernel/osrelease", "5.10.0-28-amd64\n")),
    (
        "driver-irdma-blocks-ofed",
        "beside the driver container",
        combine(
            replace_folder("/sys/module", (*LOADED, "mlx5_ib", "irdma")),
            replace_folder("/run/mellanox/drivers", ("usr",)),
        ),
    ),
]


@pytest.mark.parametrize(("fault_id", "change"), [pytest.param(f, c, id=f"{f}: {why}") for f, why, c in FAULTS])
def test_a_fault_is_named_first(fault_id: str, change: Change) -> None:
    broken = change(build_metal())
    assert find_first_fault(broken) == fault_id
    worst = [
        finding for finding in list_findings(broken) if finding.id == fault_id and finding.verdict in {"warn", "fail"}
    ]
    assert worst[0].rail in {None, 1}
    assert worst[0].evidence


def reload_driver(view: NodeView) -> NodeView:
    """Reload the driver: its new interface is down and has nothing; rules stay, as they belong to no interface."""
    table = NODE.common.rails[PORT.rail].table
    old = next(link for link in view.state.links if link.name == PORT.netdev)
    new = old._replace(index=90, flags=0, carrier=False, carrier_up_count=0, carrier_down_count=0)
    state = replace(
        view.state,
        links=(*(link for link in view.state.links if link is not old), new),
        addresses=tuple(address for address in view.state.addresses if address.index != old.index),
        routes=tuple(route for route in view.state.routes if route.table != table),
    )
    host = replace_file(f"{PCI}/sriov_numvfs", "0\n")(build_metal())
    return replace(view, state=state, host=host)


def test_a_reload_of_the_driver_is_named_before_what_it_took_away() -> None:
    findings = diagnose_nodes([reload_driver(build_metal_view())]).findings
    first = select_finding_to_fix(findings)
    assert first is not None
    assert (first.id, first.rail) == ("driver-reload-lost-config", 1)
    later = {finding.id: finding.because for finding in findings if finding.rail == 1 and finding.verdict == "fail"}
    assert later["addr-missing"] == "driver-reload-lost-config"


def test_an_interface_that_was_only_taken_down_was_not_reloaded() -> None:
    view = reload_driver(build_metal_view())
    links = tuple(link._replace(carrier_up_count=2, carrier_down_count=2) for link in view.state.links)
    findings = diagnose_nodes([replace(view, state=replace(view.state, links=links))]).findings
    assert {finding.verdict for finding in findings if finding.id == "driver-reload-lost-config"} == {"pass"}


def test_without_a_last_apply_nobody_can_say_whether_the_interface_is_new() -> None:
    findings = diagnose_nodes([replace(reload_driver(build_metal_view()), baseline=None)]).findings
    assert not [finding for finding in findings if finding.id == "driver-reload-lost-config"]


def test_a_sound_server_passes_every_check() -> None:
    sound = combine(SWITCHES, replace_output(MANAGER, "active\n"), replace_folder("/run/mellanox/drivers", ("usr",)))(
        build_metal()
    )
    findings = list_findings(sound, "drivers")
    assert {finding.verdict for finding in findings} == {"pass"}
    assert len({finding.id for finding in findings}) == 10


def test_a_fabric_manager_in_a_container_is_no_units_affair() -> None:
    container = combine(SWITCHES, replace_output(MANAGER, "inactive\n", 3), replace_file("/proc/42/comm", COMM))
    assert list_verdicts(container(build_metal()), "driver-fabric-manager-down") == {"pass"}


def test_a_node_with_another_driver_version_than_its_peers_is_named() -> None:
    inbox = replace_file("/sys/module/mlx5_core/version", None)(build_metal())
    (version,) = [
        finding
        for finding in diagnose_nodes([build_metal_view(inbox), name_metal_view("n1"), name_metal_view("n2")]).findings
        if finding.id == "driver-version-unexpected"
    ]
    assert version.verdict == "warn"
    assert version.evidence == "mlx5_core of the kernel itself at n0, 24.10-1.1.4 at n1 and 2 of 3 nodes"


def test_peer_memory_is_enough_for_the_proprietary_modules() -> None:
    peermem = combine(replace_file("/proc/driver/nvidia/version", CLOSED), PEERMEM)(build_metal())
    assert list_verdicts(peermem, "driver-gpudirect-path-missing") == {"pass"}
    assert list_verdicts(peermem, "driver-peermem-unknown-symbol") == {"pass"}


def test_with_dma_buf_nobody_asks_for_peer_memory() -> None:
    refused = append_log("nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)")(build_metal())
    assert list_verdicts(refused, "driver-peermem-unknown-symbol") == set()
    assert list_verdicts(refused, "driver-gpudirect-path-missing") == {"pass"}


def test_a_refusal_of_a_module_that_is_loaded_by_now_is_no_fault() -> None:
    mended = append_log("Loading of unsigned module is rejected")(build_metal())
    assert list_verdicts(mended, "driver-secure-boot-rejects-module") == {"pass"}


@pytest.mark.parametrize(
    ("fault_id", "change"),
    [
        pytest.param(
            "driver-module-missing-for-kernel", combine(WITHOUT_MLX5_IB, replace_output(MODINFO, None)), id="no modinfo"
        ),
        pytest.param(
            "driver-secure-boot-rejects-module",
            combine(WITHOUT_MLX5_IB, replace_output(("dmesg",), "not permitted", 1)),
            id="a module lacks, and the log is hidden",
        ),
        pytest.param("driver-iommu-page-faults", replace_output(("dmesg",), None), id="no dmesg"),
        pytest.param("driver-fabric-manager-down", SWITCHES, id="NVSwitches, and no systemctl"),
    ],
)
def test_what_cannot_be_asked_is_unknown(fault_id: str, change: Change) -> None:
    assert list_verdicts(change(build_metal()), fault_id) == {"unknown"}


def test_a_server_of_another_vendor_without_gpus_is_asked_for_nothing_of_nvidia_s() -> None:
    other = combine(
        *(replace_file(f"{DEVICES}/{nic}/vendor", "0x8086\n") for nic in NICS),
        *(replace_link(f"{DEVICES}/{nic}/driver", "../../../../bus/pci/drivers/igb") for nic in NICS),
        replace_file("/proc/driver/nvidia/version", None),
        replace_output(("dmesg",), DMESG),
    )(build_metal())
    view = build_metal_view(other)
    findings = diagnose_nodes([replace(view, node=NODE._replace(nic=None))]).findings
    kept = {finding.id for finding in findings if finding.step == "drivers"}
    assert kept == {"driver-not-bound", "driver-reload-lost-config", "driver-iommu-page-faults"}
    assert {finding.verdict for finding in findings if finding.step == "drivers"} == {"pass"}
