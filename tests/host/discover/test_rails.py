from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.host.discover import machines
from trackbed.host.discover.inventory import Inventory
from trackbed.host.discover.nearness import Proximity
from trackbed.host.discover.rails import Role, choose_rails
from trackbed.host.discover.read import read_inventory
from trackbed.host.discover.wanted import KFD
from trackbed.host.snapshot.snapshot import Snapshot


def found(snapshot: Snapshot) -> list[tuple[str | None, tuple[int, ...], str]]:
    return [
        (rail.nic.rdma, rail.gpus, rail.proximity.name if rail.proximity is not None else "-")
        for rail in choose_rails(read_inventory(snapshot)).rails
    ]


def test_each_gpu_gets_the_nic_behind_its_own_switch() -> None:
    assert found(machines.machine(machines.MI355X)) == [(f"bnxt_re{n}", (n,), "PIX") for n in range(8)]


def test_rails_follow_the_order_in_which_the_kernel_counts_amds_gpus() -> None:
    nodes = {f"{KFD}/0/properties": "simd_count 0\nlocation_id 0\n"}
    for number, bus in enumerate(machines.MI250X_ORDER.split(), start=1):
        nodes[f"{KFD}/{number}/properties"] = f"simd_count 440\nlocation_id {int(bus, 16) << 8}\ndomain 0\n"
    snapshot = machines.with_files(machines.machine(machines.MI250X), nodes)
    devices = ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_7", "mlx5_8")
    assert found(snapshot) == [(name, (2 * n, 2 * n + 1), "PIX") for n, name in enumerate(devices)]


def test_without_the_kernels_word_gpus_count_by_pci_address() -> None:
    assert [name for name, _, _ in found(machines.machine(machines.MI250X))][:2] == ["mlx5_2", "mlx5_3"]


def test_nics_that_count_backwards_still_stand_beside_their_gpus() -> None:
    assert found(machines.virtual(machines.BACKWARDS_ROWS)) == [(f"mlx5_{8 - n}", (n,), "PIX") for n in range(8)]


def test_a_nic_beside_no_gpu_is_set_aside_with_the_reason() -> None:
    aside = choose_rails(read_inventory(machines.virtual(machines.BACKWARDS_ROWS))).excluded
    assert [(excluded.nic.rdma, excluded.role, excluded.reason) for excluded in aside] == [
        ("mlx5_0", Role.STORAGE, "same model as the rails, and beside no GPU of its own")
    ]


def test_one_nic_serves_the_gpus_behind_its_switch() -> None:
    pairs = [("mlx5_1", (0, 1)), ("mlx5_0", (2, 3)), ("mlx5_5", (4, 5)), ("mlx5_2", (6, 7))]
    assert found(machines.virtual(machines.SHARED_ROWS)) == [(nic, gpus, "PXB") for nic, gpus in pairs]


def describe_matrix(gpus: int, row: Callable[[int], str]) -> str:
    return "\n".join(f"GPU{gpu} {row(gpu)}" for gpu in range(gpus))


PUBLISHED = {
    "8 A100 and 10 NICs, two beside each two GPUs": (
        describe_matrix(8, lambda gpu: " ".join("PXB" if nic // 2 == gpu // 2 else "SYS" for nic in range(10)) + " 0"),
        [f"mlx5_{n}" for n in range(8)],
    ),
    "8 H200 and a bond for storage": (
        describe_matrix(
            8,
            lambda gpu: (
                " ".join("PIX" if nic == gpu else "NODE" if (nic % 8) // 4 == gpu // 4 else "SYS" for nic in range(9))
                + f" {gpu // 4}"
            ),
        ),
        [f"mlx5_{n}" for n in range(8)],
    ),
    "4 GB200, whose tree is hidden": (
        describe_matrix(4, lambda gpu: "NODE " * 6 + str(gpu // 2)),
        [f"mlx5_{n}" for n in range(4)],
    ),
}
"""Matrices of `nvidia-smi topo -m` that were not used to write the choice of rails -> the rails."""


@pytest.mark.parametrize(("rows", "devices"), PUBLISHED.values(), ids=PUBLISHED)
def test_rails_of_published_matrices(rows: str, devices: list[str]) -> None:
    assert [(name, gpus) for name, gpus, _ in found(machines.virtual(rows))] == [
        (name, (gpu,)) for gpu, name in enumerate(devices)
    ]


def test_both_ports_of_the_only_card_are_rails_and_vfs_are_not() -> None:
    chosen = choose_rails(read_inventory(machines.machine(machines.ONE_CARD)))
    assert [(rail.nic.pci, rail.gpus) for rail in chosen.rails] == [("0000:9a:00.0", (0, 1)), ("0000:9a:00.1", (2, 3))]
    assert {excluded.nic.pci: excluded.reason for excluded in chosen.excluded} == {
        "0000:9a:00.2": "virtual function of 0000:9a:00.0",
        "0000:9a:00.3": "virtual function of 0000:9a:00.0",
    }


DGX_H100_PORTS = ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")


def dgx_h100() -> Snapshot:
    """Rails and GPUs as NVIDIA's guide has them, with the dual-port cards of the rails' own model, and slow ports."""
    lines = []
    for at, bus in enumerate(DGX_H100_PORTS):
        bridge, gpu = f"{int(bus, 16) - 3:x}", f"{int(bus, 16) + 3:02x}"
        lines += [
            f"nic {bridge}/{bridge}/{bus} 15b3:1021 {at // 4} mlx5_{at}",
            f"gpu {bridge}/{bridge}/{gpu} 10de:2330 0",
        ]
    for bus in ("29", "aa"):
        lines += [f"nic {bus}/{bus}.{port} 15b3:1021 0 side_{bus}{port}" for port in (0, 1)]
    lines += [f"nic 80/82.{port} 8086:1592 1 irdma{port}" for port in (0, 1)]
    lines.append("nic 0/0b 8086:1563 0")
    return machines.product(machines.machine("\n".join(lines)), "DGXH100")


def test_cards_of_the_rails_own_model_beside_no_gpu_are_for_storage() -> None:
    chosen = choose_rails(read_inventory(dgx_h100()))
    assert [rail.nic.pci for rail in chosen.rails] == [f"0000:{bus}:00.0" for bus in DGX_H100_PORTS]
    assert {rail.proximity for rail in chosen.rails} == {Proximity.PIX}
    assert {excluded.nic.pci: excluded.role.value for excluded in chosen.excluded} == {
        "0000:0b:00.0": "management",
        "0000:29:00.0": "storage",
        "0000:29:00.1": "storage",
        "0000:82:00.0": "storage",
        "0000:82:00.1": "storage",
        "0000:aa:00.0": "storage",
        "0000:aa:00.1": "storage",
    }


def test_every_nic_is_a_rail_or_set_aside_with_a_reason() -> None:
    inventory = read_inventory(dgx_h100())
    chosen = choose_rails(inventory)
    addresses = [rail.nic.pci for rail in chosen.rails] + [excluded.nic.pci for excluded in chosen.excluded]
    assert sorted(addresses) == [nic.pci for nic in inventory.nics]
    assert all(excluded.reason for excluded in chosen.excluded)


ROUTES = {
    "plain": {"/proc/net/route": "Iface\tDestination\nMGMT\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"},
    "IPv6": {
        "/proc/net/ipv6_route": f"{'0' * 32} 00 {'0' * 32} 00 fe80{'0' * 28} 00000400 00000001 00000000 00000003 MGMT\n"
    },
}


@pytest.mark.parametrize("files", ROUTES.values(), ids=ROUTES)
def test_the_nic_of_the_default_route_is_for_management(files: dict[str, str]) -> None:
    named = {path: text.replace("MGMT", "eth_bnxt_re3") for path, text in files.items()}
    aside = choose_rails(read_inventory(machines.with_files(machines.machine(machines.MI355X), named))).excluded
    assert [(item.nic.rdma, item.reason) for item in aside] == [("bnxt_re3", "the default route leads through it")]


def test_a_route_whose_flags_are_no_number_is_none() -> None:
    files = {path: text.replace("MGMT", "eth_bnxt_re3") for path, text in ROUTES["IPv6"].items()}
    broken = {path: text.replace("00000003", "0.5") for path, text in files.items()}
    aside = choose_rails(read_inventory(machines.with_files(machines.machine(machines.MI355X), broken))).excluded
    assert [item for item in aside if item.reason == "the default route leads through it"] == []


def test_a_gpu_without_a_nic_beside_it_is_told() -> None:
    text = "\n".join(line for line in machines.MI355X.splitlines() if "bnxt_re3" not in line)
    chosen = choose_rails(read_inventory(machines.machine(text)))
    assert len(chosen.rails) == 7
    assert chosen.warnings


def test_a_machine_without_nics_has_no_rails() -> None:
    assert choose_rails(Inventory("gpu-0", ())).rails == ()
