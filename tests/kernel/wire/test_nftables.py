from contextlib import ExitStack

import pytest

from tests.kernel.wire.cabling import cable, host
from tests.kernel.wire.filters import add_rule
from trackbed.kernel.netlink.sockets import BatchError
from trackbed.kernel.wire.icmp import Ping, ping
from trackbed.kernel.wire.nftables import BaseChain, add_drop_chain, delete_table, list_base_chains

pytestmark = pytest.mark.needs("namespaces")

WALL = BaseChain("inet", "lab", "wall", "filter", "input", 0, "drop", 0)


def test_a_namespace_without_a_filter_has_no_base_chain(stack: ExitStack) -> None:
    assert list_base_chains(host(stack), 1.0) == ()


def test_a_drop_chain_is_listed_stops_traffic_and_goes_with_its_table(stack: ExitStack) -> None:
    a, b = cable(host(stack), "10.0.0.1/24", host(stack), "10.0.0.2/24")
    pings = [Ping(a.address, b.address)]
    for _ in range(2):  # the second time nothing changes
        add_drop_chain(b.netns, "lab", "wall", "input", 1.0)
        assert (list_base_chains(b.netns, 1.0), ping(a.netns, pings, 0.1)[0].outcome) == ((WALL,), "silent")
    for _ in range(2):
        delete_table(b.netns, "lab", 1.0)
        assert (list_base_chains(b.netns, 1.0), ping(a.netns, pings, 1.0)[0].outcome) == ((), "answered")


def test_rules_are_counted_for_each_chain(stack: ExitStack) -> None:
    netns = host(stack)
    add_drop_chain(netns, "lab", "wall", "forward", 1.0)
    for _ in range(2):
        add_rule(netns, "lab", ("count", "filter", 3, -5), "counter")
    assert list_base_chains(netns, 1.0) == (
        BaseChain("inet", "lab", "wall", "filter", "forward", 0, "drop", 0),
        BaseChain("ip", "lab", "count", "filter", "output", -5, "accept", 2),
    )


def test_what_the_kernel_refuses_leaves_nothing_behind(stack: ExitStack) -> None:
    netns = host(stack)
    with pytest.raises(BatchError, match="message 3: No such file or directory"):
        add_rule(netns, "lab", ("count", "filter", 3, 0), "nonsense")
    assert list_base_chains(netns, 1.0) == ()


def test_a_hook_that_does_not_exist_is_an_error_before_the_kernel_is_asked(stack: ExitStack) -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        add_drop_chain(host(stack), "lab", "wall", "sideways", 1.0)
