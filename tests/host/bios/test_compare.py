"""What differs, from profiles and recorded registries."""

from __future__ import annotations

import pytest

from trackbed.host.bios.compare import AllowedValue, BiosState, RegistryEntry, Value, compare, find_vendor
from trackbed.host.bios.files import load_profile


def entry(name: str, label: str = "", values: tuple[str, ...] = (), *, read_only: bool = False) -> RegistryEntry:
    return RegistryEntry(name, label, tuple(AllowedValue(value) for value in values), read_only)


def seen(have: dict[str, Value], *entries: RegistryEntry, pending: dict[str, Value] | None = None) -> BiosState:
    return BiosState("", have, have if pending is None else pending, {entry.name: entry for entry in entries})


@pytest.mark.parametrize(
    ("text", "vendor"),
    [
        ("Dell Inc.", "dell"),
        ("HPE", "hpe"),
        ("Hewlett Packard Enterprise", "hpe"),
        ("Lenovo", "lenovo"),
        ("Supermicro", "supermicro"),
        ("Super Micro Computer, Inc.", "supermicro"),
        ("Sushy Emulator", None),
        ("", None),
    ],
)
def test_a_vendor_is_known_by_its_manufacturer_name(text: str, vendor: str | None) -> None:
    assert find_vendor(text) == vendor


NAME = "SR_IOVSupport_00F1"
LABELLED = entry(NAME, "SR-IOV Support", ("Disabled", "Enabled"))


@pytest.mark.parametrize(
    ("vendor", "state_of_bios", "state", "value"),
    [
        pytest.param("dell", seen({"SriovGlobalEnable": "Disabled"}), "differs", "Enabled", id="differs"),
        pytest.param("dell", seen({"SriovGlobalEnable": "Enabled"}), "same", "Enabled", id="same"),
        pytest.param("dell", seen({"Other": "x"}), "missing", None, id="missing"),
        pytest.param("supermicro", seen({NAME: "Disabled"}, LABELLED), "differs", "Enabled", id="by-label"),
        pytest.param("supermicro", seen({NAME: "Disabled"}), "differs", "Enabled", id="by-name-without-suffix"),
        pytest.param(
            "lenovo",
            seen(
                {"DevicesandIOPorts_SRIOV": "Disable"},
                entry("DevicesandIOPorts_SRIOV", "SR-IOV", ("Disable", "Enable")),
            ),
            "differs",
            "Enable",
            id="other-spelling",
        ),
        pytest.param(
            "hpe",
            seen({"Sriov": "Disabled"}, entry("Sriov", "", ("Disabled", "Auto"))),
            "illegal",
            None,
            id="no-legal-value",
        ),
        pytest.param(
            "hpe", seen({"Sriov": "Disabled"}, entry("Sriov", read_only=True)), "locked", "Enabled", id="read-only"
        ),
        pytest.param(
            "hpe", seen({"Sriov": "Disabled"}, pending={"Sriov": "Enabled"}), "staged", "Enabled", id="staged"
        ),
        pytest.param(
            "hpe", seen({"Sriov": "Enabled"}, pending={"Sriov": "Disabled"}), "differs", "Enabled", id="staged-away"
        ),
        pytest.param("hpe", seen({"Sriov": False}), "differs", True, id="a-truth-value"),
    ],
)
def test_a_wanted_setting_is_found_and_judged(vendor: str, state_of_bios: BiosState, state: str, value: Value) -> None:
    (item,) = compare(load_profile(vendor), {"sriov": "enabled"}, state_of_bios)
    assert (item.state, item.value) == (state, value)


def test_every_candidate_that_a_server_has_must_agree() -> None:
    state = seen({"IntelProcVtd": "Enabled", "ProcAmdIoVt": "Disabled"})
    assert [item.state for item in compare(load_profile("hpe"), {"iommu": "enabled"}, state)] == ["same", "differs"]


def test_numa_nodes_are_written_as_the_vendor_writes_them() -> None:
    (item,) = compare(load_profile("hpe"), {"numaPerSocket": "4"}, seen({"NumaMemoryDomainsPerSocket": "Auto"}))
    assert item.value == "FourMemoryDomainsPerSocket"


@pytest.mark.parametrize("vendor", ["dell", "hpe", "lenovo", "supermicro"])
def test_a_profile_names_iommu_and_sriov_and_every_candidate_can_be_found(vendor: str) -> None:
    known = load_profile(vendor)
    assert {"iommu", "sriov"} <= set(known)
    assert all(which.name or which.label for candidates in known.values() for which in candidates)
