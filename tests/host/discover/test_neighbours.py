from __future__ import annotations

from contextlib import ExitStack
from threading import Event, Thread

import pytest

from tests.kernel.senders import announce
from tests.kernel.wire.cabling import cable, host
from trackbed.host.discover.inventory import Inventory, Nic
from trackbed.host.discover.neighbours import add_neighbours
from trackbed.kernel.wire.lldp import Advertisement

pytestmark = pytest.mark.needs("namespaces")


def test_the_switch_port_of_an_interface_is_heard() -> None:
    with ExitStack() as stack:
        node, leaf = cable(host(stack), "", host(stack), "")
        nic = Nic("0000:18:00.0", ("pci0000:17", "0000:18:00.0"), "15b3:1021", netdev=node.name)
        done = Event()

        def speak() -> None:
            while not done.wait(0.05):
                announce(leaf.netns, {leaf.ifindex: Advertisement("02:00:00:00:00:01", "swp7", system_name="leaf-3")})

        speaker = Thread(target=speak)
        speaker.start()
        try:
            inventory = add_neighbours(Inventory("gpu-0", (nic,)), node.netns, 5)
        finally:
            done.set()
            speaker.join()
    assert inventory.neighbours == {node.name: "leaf-3 swp7"}


def test_a_machine_without_interfaces_hears_nobody() -> None:
    with ExitStack() as stack:
        assert add_neighbours(Inventory("gpu-0", ()), host(stack), 5).neighbours == {}
