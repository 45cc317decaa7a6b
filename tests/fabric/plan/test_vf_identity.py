"""Every VF of a Fabric has a MAC address and a GUID of its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.plan.fabrics import fabric
from trackbed.fabric.bounds import MAX_RAILS
from trackbed.fabric.model.nodes import MAX_NODES
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.vf_identity import derive_vf_guid, derive_vf_mac

VFS = st.tuples(st.integers(0, MAX_NODES + 100_000), st.integers(0, MAX_RAILS - 1), st.integers(0, 255))


@given(VFS, VFS)
def test_two_vfs_have_the_same_address_only_if_they_are_one(
    first: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    assert (derive_vf_mac(*first) == derive_vf_mac(*other)) is (first == other)
    assert (derive_vf_guid(*first) == derive_vf_guid(*other)) is (first == other)


@given(VFS)
def test_an_address_is_local_unicast_and_no_macvlans(vf: tuple[int, int, int]) -> None:
    mac = derive_vf_mac(*vf)
    first = int(mac[:2], 16)
    assert (first & 1, first & 2) == (0, 2)
    assert mac[:5] not in {"0e:7b", "0e:7c"}
    assert len(mac) == 17


@given(VFS)
def test_a_guid_is_that_which_mlx5_derives_from_the_address(vf: tuple[int, int, int]) -> None:
    """node_guid_gen_from_mac of drivers/net/ethernet/mellanox/mlx5/core/esw: ff:fe in the middle, no bit inverted."""
    mac = derive_vf_mac(*vf).replace(":", "")
    assert derive_vf_guid(*vf).replace(":", "") == f"{mac[:6]}fffe{mac[6:]}"


@pytest.mark.parametrize(
    "vf", [(1 << 18, 0, 0), (0, 64, 0), (0, 0, 256), (-1, 0, 0)], ids=["slot", "rail", "VF", "sign"]
)
def test_a_number_without_room_is_refused(vf: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="has no MAC address of its own"):
        derive_vf_mac(*vf)


@pytest.mark.parametrize(("unit", "is_refused"), [(2047, False), (2048, True)])
def test_a_plan_has_no_slot_whose_vfs_lack_an_address(unit: int, is_refused: bool) -> None:
    spec = {"nodesPerUnit": 128, "nodes": [{"hosts": "gpu-0", "unit": unit}], "rails": 1, "vfs": {"count": 1}}
    made = fabric(addressing={"scheme": "none"}, rdma={"namespaceMode": "exclusive"}, **spec)
    if not is_refused:
        assert derive_vf_mac(compute_plan(made, {}).nodes[0].slot, 0, 0)
        return
    with pytest.raises(SpecError, match=r"gpu-0 has slot 262144 \(unit 2048\).* up to slot 262143; write a lower unit"):
        compute_plan(made, {})
    assert compute_plan(fabric(addressing={"scheme": "none"}, **spec | {"vfs": {"count": 0}}), {}).nodes
