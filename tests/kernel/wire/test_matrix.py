import socket
import time
from contextlib import ExitStack
from ipaddress import ip_address

import pytest

from tests.kernel.wire.cabling import FORWARDING, Port, cable, configure, host, route, router, segment
from tests.kernel.wire.filters import add_rule
from trackbed.kernel.wire.matrix import Endpoint, PairResult, measure
from trackbed.kernel.wire.nftables import add_drop_chain

pytestmark = pytest.mark.needs("namespaces")


def endpoint(label: str, port: Port) -> Endpoint:
    family = socket.AF_INET6 if port.address >> 32 else socket.AF_INET
    return Endpoint(label, port.netns, port.ifindex, port.address, family)


def pod(stack: ExitStack, leaf: int, network: str) -> Port:
    """A host on a cable of its own to a leaf that is its gateway."""
    port, gateway = cable(host(stack), f"{network}.1/31", leaf, f"{network}.0/31")
    configure(gateway, FORWARDING)
    route(port, "0.0.0.0/0", gateway)
    return port


@pytest.fixture
def ports(stack: ExitStack) -> dict[str, Port]:
    """Pods a and b on one leaf, c on another, and a cable between the leaves."""
    leaf_0, leaf_1 = host(stack), host(stack)
    up, down = cable(leaf_0, "10.9.0.0/31", leaf_1, "10.9.0.1/31")
    for port in (up, down):
        configure(port, FORWARDING)
    route(up, "10.1.0.0/16", down)
    route(down, "10.0.0.0/16", up)
    return {"a": pod(stack, leaf_0, "10.0.0"), "b": pod(stack, leaf_0, "10.0.1"), "c": pod(stack, leaf_1, "10.1.0")}


def measure_pairs(ports: dict[str, Port], silence_seconds: float) -> dict[tuple[str, str], PairResult]:
    results = measure([endpoint(label, port) for label, port in ports.items()], silence_seconds)
    return {(result.source, result.target): result for result in results}


def test_every_pair_tells_source_interface_and_hops(ports: dict[str, Port]) -> None:
    results = measure_pairs(ports, 2.0)
    assert {pair: result.hops for pair, result in results.items()} == {
        **dict.fromkeys([("a", "b"), ("b", "a")], 1),
        **dict.fromkeys([("a", "c"), ("c", "a"), ("b", "c"), ("c", "b")], 2),
    }
    assert all(result.answered and not result.error for result in results.values())
    assert all(result.seen_source == ports[result.source].address for result in results.values())
    assert all(result.arrived_ifindex == ports[result.target].ifindex for result in results.values())
    assert all(0 < (result.rtt_us or 0) < 2e6 for result in results.values())


def test_a_source_translated_on_the_way_is_seen(ports: dict[str, Port], stack: ExitStack) -> None:
    add_rule(ports["a"].netns, "nat", ("out", "nat", 4, 100), "masq")
    with_second_address, _ = cable(ports["a"].netns, "10.0.7.1/24", host(stack), "")
    hidden = Endpoint("a", ports["a"].netns, with_second_address.ifindex, with_second_address.address)
    results = measure([hidden, endpoint("b", ports["b"])], 0.3)
    assert (results[0].source, results[0].seen_source) == ("a", ports["a"].address)


def test_a_datagram_that_takes_the_wrong_interface_is_seen(stack: ExitStack) -> None:
    a, b = cable(host(stack), "10.0.0.1/24", host(stack), "10.0.0.2/24")
    elsewhere, _ = cable(b.netns, "10.3.0.1/24", host(stack), "")
    route(a, "10.3.0.0/24", b)
    results = measure([endpoint("a", a), endpoint("b", elsewhere)], 1.0)
    assert (results[0].answered, results[0].arrived_ifindex) == (True, b.ifindex)
    assert b.ifindex != elsewhere.ifindex


def test_a_way_back_that_is_blocked_differs_from_a_way_there(ports: dict[str, Port]) -> None:
    add_drop_chain(ports["a"].netns, "lab", "wall", "input", 1.0)
    results = measure_pairs(ports, 0.2)
    assert (results["a", "b"].answered, results["a", "b"].seen_source) == (False, ports["a"].address)
    assert (results["b", "a"].answered, results["b", "a"].seen_source) == (False, None)
    assert results["b", "c"].answered


def test_what_the_kernel_refuses_to_send_is_told(ports: dict[str, Port]) -> None:
    add_drop_chain(ports["a"].netns, "lab", "wall", "output", 1.0)
    results = measure_pairs(ports, 0.1)
    assert results["a", "b"].error == "a: cannot send: Operation not permitted"
    assert results["b", "c"].error == ""


def test_an_address_that_is_not_there_spoils_its_own_pairs_only(ports: dict[str, Port]) -> None:
    a, b, c = (endpoint(label, port) for label, port in ports.items())
    missing = Endpoint("missing", c.netns, c.ifindex, int(ip_address("10.1.0.77")))
    started = time.monotonic()
    results = measure([a, b, missing], 5.0)
    assert time.monotonic() - started < 2.5  # what cannot be asked is not waited for
    assert [result.answered for result in results if "missing" not in {result.source, result.target}] == [True, True]
    assert {result.error for result in results if "missing" in {result.source, result.target}} == {
        "missing: no socket on its address: [Errno 99] Cannot assign requested address"
    }


def test_ipv6_tells_the_same(stack: ExitStack) -> None:
    leaf = router(stack)
    ends = []
    for label in ("1", "2"):
        port, gateway = cable(host(stack), f"fd00:{label}::1/64", leaf, f"fd00:{label}::fe/64")
        route(port, "::/0", gateway)
        ends.append(port)
    results = measure([endpoint(str(number), port) for number, port in enumerate(ends)], 2.0)
    assert [(result.answered, result.hops) for result in results] == [(True, 1), (True, 1)]
    assert [result.seen_source for result in results] == [port.address for port in ends]
    assert [result.arrived_ifindex for result in results] == [ends[1].ifindex, ends[0].ifindex]


def test_link_local_addresses_are_reached_on_their_interface(stack: ExitStack) -> None:
    ends = cable(host(stack), "fe80::a/64", host(stack), "fe80::b/64")
    results = measure([endpoint(port.name, port) for port in ends], 1.0)
    assert [result.answered for result in results] == [True, True]


def test_families_are_not_mixed(stack: ExitStack) -> None:
    four, six = cable(host(stack), "10.0.0.1/24", host(stack), "fd00::1/64")
    assert measure([endpoint("four", four), endpoint("six", six)], 1.0) == ()


def test_thirty_two_endpoints_lose_nothing_and_take_well_under_a_second(stack: ExitStack) -> None:
    leaf = host(stack)
    ends = [pod(stack, leaf, f"10.0.{number}") for number in range(32)]
    started = time.monotonic()
    results = measure([endpoint(str(number), port) for number, port in enumerate(ends)], 5.0)
    elapsed_seconds = time.monotonic() - started
    assert len(results) == 32 * 31
    assert all(result.answered for result in results)
    assert elapsed_seconds < 1.0, f"{elapsed_seconds:.3f} s"
    print(f"32 x 32: {elapsed_seconds * 1e3:.0f} ms")  # noqa: T201 - the measured figure


def test_one_silent_endpoint_does_not_hold_up_the_others(stack: ExitStack) -> None:
    switch = segment(stack)
    ends = [switch.attach(host(stack), f"10.0.0.{number}/24") for number in range(1, 13)]
    add_drop_chain(ends[0].netns, "lab", "wall", "input", 1.0)
    results = measure([endpoint(str(number), port) for number, port in enumerate(ends)], 0.6)
    assert {"0" in {result.source, result.target} for result in results if not result.answered} == {True}
    assert sum(result.answered for result in results) == 11 * 10


def test_what_the_time_did_not_suffice_for_is_said_to_be_not_asked(ports: dict[str, Port]) -> None:
    ends = [endpoint(label, port) for label, port in ports.items()]
    assert {result.tested for result in measure(ends, 2.0)} == {True}
    assert {(result.tested, result.answered, result.error) for result in measure(ends, 2.0, 0.0)} == {
        (False, False, "")
    }


def test_many_pairs_are_all_asked_however_short_the_silence(stack: ExitStack) -> None:
    switch = segment(stack)
    ends = [switch.attach(host(stack), f"10.0.0.{number}/24") for number in range(1, 25)]
    for port in ends[::2]:
        add_drop_chain(port.netns, "lab", "wall", "input", 1.0)
    results = measure([endpoint(str(number), port) for number, port in enumerate(ends)], 0.03)
    assert {result.tested for result in results} == {True}
    reached = {result.target for result in results if result.seen_source}
    assert reached == {str(number) for number in range(1, 24, 2)}
