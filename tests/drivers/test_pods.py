"""What pods hold is no difference from the plan, whatever drifts beside it, and drift is repaired under them."""

from __future__ import annotations

import pytest

from tests.drivers.conftest import Rig
from tests.drivers.hardware import Hardware
from tests.drivers.igb import Igb
from tests.drivers.mlx5 import Mlx5
from tests.drivers.place import apply_plan, furnish, settings
from tests.drivers.port import Port
from tests.host.places import Host
from trackbed.host.transaction.apply import ApplyOptions, apply
from trackbed.host.transaction.compare import compare
from trackbed.kernel.netlink.links import build_set_link

ARP_IGNORE = "net/ipv4/conf/eth0/arp_ignore"


def give_vf_to_pod(place: Host, hardware: Hardware) -> None:
    """Move the interface of VF 1 of the first port into another namespace, under another name."""
    port = hardware.ports[0]
    name, index, _ = hardware.list_names()[hardware.locate_vf(port, 1)]
    place.send(build_set_link(index, netns_fd=hardware.far, name="pod0", up=False))
    assert name != "pod0"


@pytest.mark.parametrize("driver", [Mlx5, Igb])
def test_a_vf_in_a_pod_is_no_difference_and_a_sysctl_is_repaired_beside_it(rig: Rig, driver: type[Port]) -> None:
    place, hardware = rig(driver)
    place = furnish(place)
    apply_plan(place)
    give_vf_to_pod(place, hardware)
    assert compare(place.machine, settings()).changes == ()
    place.machine.write_sysctl(ARP_IGNORE, "0")
    (change,) = compare(place.machine, settings()).changes
    assert (change.subject, change.is_repairable) == (ARP_IGNORE, True)
    options = ApplyOptions(repairs=frozenset({(change.step, change.subject)}))
    assert apply(place.machine, settings(), place.records, options=options).changes == (change,)
    assert compare(place.machine, settings()).changes == ()
