"""Disjoint pairs by arithmetic on indices: the circle method, and latin squares.

The circle method seats one of n players in the middle and the others on a circle; each turn of the circle is a round,
and after n - 1 rounds (n if n is odd) each player has met each other player once (Kirkman 1850). In a round, the
players x and y of the circle meet if x + y = 2 * round (mod n - 1). Example: 4 players in round 0 are (3, 0), (1, 2).
"""

from collections.abc import Iterator

Pair = tuple[int, int]


def count_circle_rounds(count: int) -> int:
    """Return the rounds in which each of `count` players meets each other: n - 1, or n if n is odd; 0 below two."""
    if count < 2:  # noqa: PLR2004 - one player has no partner
        return 0
    return count - 1 + count % 2


def pair_by_circle(count: int, round_number: int) -> Iterator[Pair]:
    """Yield the disjoint pairs of a round; with an odd count one player rests (see `find_resting_player`)."""
    seats = count_circle_rounds(count)
    if not seats:
        return
    turn = round_number % seats
    if count % 2 == 0:
        yield count - 1, turn
    for step in range(1, (seats - 1) // 2 + 1):
        yield (turn + step) % seats, (turn - step) % seats


def find_resting_player(count: int, round_number: int) -> int | None:
    """Return the player without partner in a round; None if the count is even."""
    if count == 1:
        return 0
    return round_number % count if count % 2 else None


def pair_halves(count: int) -> Iterator[Pair]:
    """Yield pairs of the first half with the second half, in order; the last of an odd count rests."""
    half = count // 2
    return ((index, index + half) for index in range(half))


def shift_rail(rail: int, shift: int, rails: int) -> int:
    """Return the entry of a cyclic latin square: in each shift, each rail meets one rail, over all shifts each."""
    return (rail + shift) % rails
