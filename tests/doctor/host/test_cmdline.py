"""Each fault of step cmdline, put into a sound server, is what doctor names first; the sound server has none."""

from __future__ import annotations

import pytest

from tests.doctor.host.sound_metal import (
    CMDLINE,
    DEVICES,
    NIC,
    RESOURCE,
    Change,
    append_log,
    build_metal,
    combine,
    find_first_fault,
    list_findings,
    list_verdicts,
    replace_file,
    replace_folder,
)

PAGES = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"
NODE_PAGES = "/sys/devices/system/node/node{}/hugepages/hugepages-1048576kB/nr_hugepages"
EMPTY_VF_BARS = "\n".join([*RESOURCE.splitlines()[:7], *["0x0000000000000000 " * 2 + "0x0000000000000000"] * 6])
NO_VF_MEMORY = replace_file(f"{DEVICES}/{NIC}/resource", EMPTY_VF_BARS)

FAULTS: list[tuple[str, str, Change]] = [
    (
        "cmdline-not-applied",
        "GRUB was not told",
        replace_file("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz root=/dev/sda2 ro\n"),
    ),
    ("cmdline-not-applied", "overridden", replace_file("/proc/cmdline", f"{CMDLINE} hugepagesz=1G hugepages=4")),
    ("cmdline-iommu-off", "no groups", replace_folder("/sys/kernel/iommu_groups", ())),
    ("cmdline-iommu-translated", "lazy translation", replace_file(f"{DEVICES}/{NIC}/iommu_group/type", "DMA-FQ\n")),
    ("cmdline-iommu-translated", "strict translation", replace_file(f"{DEVICES}/{NIC}/iommu_group/type", "DMA\n")),
    ("cmdline-hugepages-short", "some", replace_file(PAGES, "15\n")),
    (
        "cmdline-hugepages-short",
        "the kernel says so",
        combine(
            replace_file(PAGES, "0\n"),
            append_log("HugeTLB: allocating 16 of page size 1.00 GiB failed.  Only allocated 0 hugepages."),
        ),
    ),
    (
        "cmdline-hugepages-one-node",
        "all on node 0",
        combine(replace_file(NODE_PAGES.format(0), "16\n"), replace_file(NODE_PAGES.format(1), "0\n")),
    ),
    ("cmdline-isolcpus-under-pods", "too many", replace_file("/sys/devices/system/cpu/isolated", "2-7,8-15\n")),
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


def test_a_sound_server_passes_every_check() -> None:
    findings = list_findings(build_metal(), "cmdline")
    assert {finding.verdict for finding in findings} == {"pass"}
    assert len({finding.id for finding in findings}) == 6, "pci=realloc is judged where VFs lack memory only"


def test_realloc_is_missed_once_vfs_lack_memory_and_the_firmware_is_blamed_first() -> None:
    broken = combine(NO_VF_MEMORY, replace_file("/proc/cmdline", CMDLINE.replace("pci=realloc", "pci=nommconf")))(
        build_metal()
    )
    (realloc,) = [finding for finding in list_findings(broken) if finding.id == "cmdline-pci-realloc-missing"]
    assert (realloc.verdict, realloc.rail, realloc.because) == ("fail", 1, "bios-vf-bars-unassigned")


def test_realloc_among_other_words_of_pci_counts() -> None:
    kept = combine(NO_VF_MEMORY, replace_file("/proc/cmdline", CMDLINE.replace("pci=realloc", "pci=nocrs,realloc=on")))(
        build_metal()
    )
    assert list_verdicts(kept, "cmdline-pci-realloc-missing") == {"pass"}


def test_an_iommu_that_the_firmware_left_out_is_not_the_kernel_s_fault() -> None:
    broken = combine(
        replace_folder("/sys/kernel/iommu_groups", ()), replace_folder("/sys/firmware/acpi/tables", ("APIC",))
    )(build_metal())
    assert list_verdicts(broken, "cmdline-iommu-off") == set()
    assert find_first_fault(broken) == "bios-iommu-table-missing"


@pytest.mark.parametrize(
    ("fault_id", "path"),
    [
        pytest.param("cmdline-not-applied", "/proc/cmdline", id="no command line"),
        pytest.param("cmdline-hugepages-short", PAGES, id="the CPU has no pages of this size"),
    ],
)
def test_what_cannot_be_read_is_unknown(fault_id: str, path: str) -> None:
    assert list_verdicts(replace_file(path, None)(build_metal()), fault_id) == {"unknown"}


def test_one_numa_node_has_all_pages() -> None:
    host = combine(replace_file(NODE_PAGES.format(1), None), replace_file(NODE_PAGES.format(0), "16\n"))(build_metal())
    assert list_verdicts(host, "cmdline-hugepages-one-node") == set()
