"""A lab whose neighbours do not fit into the kernel's table is refused before it starts; one that fits is not."""

from __future__ import annotations

from pathlib import Path
from socket import AF_INET, AF_INET6
from typing import TYPE_CHECKING

import pytest
from trackbed_lab import lab as lab_module
from trackbed_lab.lab import Lab, LabError
from trackbed_lab.neighbour_room import count_neighbours, explain_shortage
from trackbed_lab.run import measure_pairs

from tests.lab.fabrics import NODE_SUBNET, ONLY_V6, P2P, SHARED, fabric, planned
from tests.lab.sandboxes import in_sandbox
from trackbed.kernel.netlink.neighbour_tables import NeighbourTable
from trackbed.kernel.netlink.neighbours import NUD_NOARP, list_neighbours
from trackbed.kernel.netlink.sockets import Socket

if TYPE_CHECKING:
    from collections.abc import Mapping

CASES: Mapping[str, tuple[str, int]] = {
    "point-to-point": (P2P, AF_INET),
    "node-subnet": (NODE_SUBNET, AF_INET),
    "shared-subnet": (SHARED, AF_INET),
    "ipv6": (ONLY_V6, AF_INET6),
}


@pytest.mark.needs("processes")
@pytest.mark.slow
@pytest.mark.parametrize(("addressing", "family"), CASES.values(), ids=CASES)
def test_a_lab_has_no_more_neighbours_than_it_says(tmp_path: Path, addressing: str, family: int) -> None:
    def work() -> int:
        lab = Lab(tmp_path)
        lab.build(fabric(addressing))
        lab.start_speaker()
        lab.apply()
        lab.start_agents()
        lab.diagnose()
        lab.add_pods()
        assert all(pair.answered for pair in measure_pairs(lab))
        return sum(_count_learned(path, family) for path in (tmp_path / "ns").iterdir())

    counted = in_sandbox(tmp_path, work)
    assert 0 < counted <= count_neighbours(planned(addressing), family)


def _count_learned(netns: Path, family: int) -> int:
    with Socket(netns=netns) as sock:
        return sum(not entry.state & NUD_NOARP for entry in list_neighbours(sock, family))


TABLE = NeighbourTable(AF_INET, 24, 1024, 0)


def test_a_table_that_just_suffices_is_enough_whatever_it_holds() -> None:
    plan = planned(P2P)
    needed = count_neighbours(plan, AF_INET)
    assert explain_shortage(plan, [TABLE._replace(size=needed, entries=needed)]) == ""
    assert f"has room for {needed - 1} " in explain_shortage(plan, [TABLE._replace(size=needed - 1)])


@pytest.mark.parametrize(("nodes", "fits"), [(64, True), (170, True), (171, False)])
def test_labs_up_to_the_kernels_default_are_not_refused(nodes: int, *, fits: bool) -> None:
    plan = planned(P2P, hosts=f'"gpu-[0-{nodes - 1}]"', per_unit=nodes)
    assert (explain_shortage(plan, [TABLE]) == "") == fits


def test_a_table_that_is_too_small_is_told_with_what_to_set() -> None:
    plan = planned(P2P, hosts='"gpu-[0-511]"', per_unit=256)
    assert explain_shortage(plan, [TABLE]) == (
        f"this lab brings up to {count_neighbours(plan, AF_INET)} IPv4 neighbours, and this machine's kernel has room "
        "for 1024 (net.ipv4.neigh.default.gc_thresh3); working pairs would look broken; raise it as root, in no "
        "namespace: sysctl -w net.ipv4.neigh.default.gc_thresh3=8192 net.ipv4.neigh.default.gc_thresh2=4096"
    )


@pytest.mark.needs("namespaces")
def test_a_lab_without_room_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_module, "list_neighbour_tables", lambda _: (TABLE._replace(size=15),))
    with pytest.raises(LabError, match=r"room for 15 \(net\.ipv4\.neigh\.default\.gc_thresh3\)"):
        Lab(tmp_path).build(fabric(P2P))
    assert not (tmp_path / "ns").exists()
