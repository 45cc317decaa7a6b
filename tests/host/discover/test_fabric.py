from __future__ import annotations

import msgspec
import pytest

from tests.host.discover import machines
from tests.host.discover.test_rails import DGX_H100_PORTS, dgx_h100
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan
from trackbed.host.discover.crosscheck import crosscheck
from trackbed.host.discover.fabric import Choice, render_fabric
from trackbed.host.discover.inventory import Inventory
from trackbed.host.discover.rails import choose_rails
from trackbed.host.discover.read import read_inventory


def named(inventory: Inventory, host: str) -> Inventory:
    return msgspec.structs.replace(inventory, host=host)


def planned(text: str) -> Plan:
    return compute_plan(load_fabric(text.encode(), "fabric.yaml").fabric, {})


MI355X = read_inventory(machines.machine(machines.MI355X))
BACKWARDS = read_inventory(machines.virtual(machines.BACKWARDS_ROWS))
SHARED = read_inventory(machines.virtual(machines.SHARED_ROWS))


def test_the_plan_of_the_fabric_has_the_ports_that_were_found() -> None:
    ports = planned(render_fabric([BACKWARDS], Choice())).nodes[0].ports
    assert [(port.rail, port.pci, port.gpus) for port in ports] == [
        (n, f"0000:{0x40 + 8 - n:x}:00.0", (n,)) for n in range(8)
    ]


def test_a_nic_for_two_gpus_is_planned_for_two_gpus() -> None:
    ports = planned(render_fabric([SHARED], Choice())).nodes[0].ports
    assert [(port.pci, port.gpus) for port in ports] == [
        ("0000:41:00.0", (0, 1)),
        ("0000:40:00.0", (2, 3)),
        ("0000:45:00.0", (4, 5)),
        ("0000:42:00.0", (6, 7)),
    ]


def test_machines_alike_share_a_group_and_others_have_their_own() -> None:
    alike = [named(MI355X, f"gpu-{n}") for n in (0, 1, 2)]
    text = render_fabric([*alike, named(BACKWARDS, "vm-7")], Choice(name="two-kinds"))
    assert "- hosts: gpu-[0-2]\n" in text
    assert "- hosts: vm-7\n" in text
    made = planned(text)
    assert [(node.name, node.nic) for node in made.nodes] == [
        ("gpu-0", "14e4:1760"),
        ("gpu-1", "14e4:1760"),
        ("gpu-2", "14e4:1760"),
        ("vm-7", "15b3:1021"),
    ]


def test_pods_ask_for_the_gpus_that_were_found() -> None:
    assert planned(render_fabric([MI355X], Choice())).kubernetes.gpu_resource == "amd.com/gpu"
    assert "kubernetes" not in render_fabric([BACKWARDS], Choice())


def test_what_is_no_rail_stands_in_comments_with_the_reason() -> None:
    text = render_fabric([BACKWARDS], Choice())
    reason = "storage: same model as the rails, and beside no GPU of its own"
    assert f"# set aside: 0000:40:00.0 eth_mlx5_0, {reason}" in text


def test_hosts_with_fewer_rails_have_none_on_the_last_ones() -> None:
    text = render_fabric([named(MI355X, "gpu-0"), named(SHARED, "gpu-1")], Choice())
    assert [len(node.ports) for node in planned(text).nodes] == [8, 4]


REFUSED = {
    "nothing there": ([Inventory("gpu-0", ())], "no NIC of gpu-0 can be a rail"),
    "one name twice": ([MI355X, MI355X], "two machines are called gpu-0"),
    "two kinds of link": (
        [
            MI355X,
            msgspec.structs.replace(
                named(BACKWARDS, "b"),
                nics=tuple(msgspec.structs.replace(nic, link="infiniband") for nic in BACKWARDS.nics),
            ),
        ],
        "make one Fabric for each",
    ),
}


@pytest.mark.parametrize(("inventories", "message"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_fabric_is_refused(inventories: list[Inventory], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        render_fabric(inventories, Choice())


def test_an_inventory_survives_being_written_down() -> None:
    assert msgspec.json.decode(msgspec.json.encode(BACKWARDS), type=Inventory) == BACKWARDS


def test_a_server_of_the_catalogue_is_recognised() -> None:
    inventory = read_inventory(dgx_h100())
    assert crosscheck(inventory, choose_rails(inventory)) == ("dgx-h100", ())


def test_differences_from_the_catalogue_are_told() -> None:
    inventory = read_inventory(machines.product(machines.machine(machines.MI355X), "DGXH100"))
    name, differs = crosscheck(inventory, choose_rails(inventory))
    assert name == "dgx-h100"
    assert "dgx-h100 in the catalogue has rails of ConnectX-7 (15b3:1021), here they are 14e4:1760" in differs
    assert f"dgx-h100 in the catalogue has rail 1 at 0000:{DGX_H100_PORTS[1]}:00.0, here it is 0000:13:00.0" in differs


def test_a_machine_that_the_catalogue_does_not_know_is_no_difference() -> None:
    assert crosscheck(MI355X, choose_rails(MI355X)) == (None, ())
