from hypothesis import given
from hypothesis import strategies as st

from trackbed.fabric.plan.plan import AddressPlan
from trackbed.node.rails.store import find_free_addresses

V4 = AddressPlan(4, 1000, 24, 999, 1001, 4)
V6 = AddressPlan(6, 5000, 64, 4999, 5001, 3)


def test_the_first_place_comes_first() -> None:
    assert find_free_addresses((V4,), set(), None) == (AddressPlan(4, 1001, 24, 999, 0, 0),)


def test_an_address_just_given_back_is_the_last_to_be_used_again() -> None:
    taken: set[tuple[int, int]] = set()
    last, order = None, []
    for _ in range(5):
        addresses = find_free_addresses((V4,), taken, last)
        assert addresses
        last = addresses[0].address
        order.append(last)
    assert order == [1001, 1002, 1003, 1004, 1001]


def test_a_full_block_has_none() -> None:
    assert find_free_addresses((V4,), {(4, address) for address in range(1001, 1005)}, 1002) is None


def test_a_block_without_pod_addresses_has_none() -> None:
    assert find_free_addresses((AddressPlan(4, 10, 31, 11, 10, 0),), set(), None) is None


def test_a_rail_without_addresses_is_always_free() -> None:
    assert find_free_addresses((), set(), None) == ()


def test_both_versions_get_the_same_place_and_the_smaller_block_is_the_limit() -> None:
    addresses = find_free_addresses((V4, V6), {(6, 5001)}, None)
    assert addresses
    assert [address.address for address in addresses] == [1002, 5002]
    assert find_free_addresses((V4, V6), {(4, address) for address in range(1001, 1004)}, None) is None


def test_a_last_address_of_an_older_plan_does_no_harm() -> None:
    addresses = find_free_addresses((V4,), set(), 7)
    assert addresses
    assert 1001 <= addresses[0].address <= 1004


@given(st.sets(st.integers(1001, 1004)), st.none() | st.integers(900, 1100))
def test_what_is_found_is_free_and_inside(taken: set[int], last: int | None) -> None:
    addresses = find_free_addresses((V4,), {(4, address) for address in taken}, last)
    assert (addresses is None) == (len(taken) == 4)
    if addresses:
        assert addresses[0].address in set(range(1001, 1005)) - taken
