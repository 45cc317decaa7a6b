"""Rounds of disjoint tests: in a round, each port takes part in one test at most, and all rails are tested at once.

screen  three rounds: ports of one leaf, ports of two leaves of a pod, ports of two pods where there are several
cover   single flows between leaves, until each link between leaf and spine was hit (see `coverage`)
full    each port with each other port of its rail, at full load
matrix  rail × rail: each rail of a node with each rail of its partner

Tests between leaves fill LOAD of the uplinks at most, since ECMP does not balance perfectly: at full load colliding
flows would look like a fault. The other ports of such a round are tested within their leaf.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from trackbed.prove.coverage import compute_hit_probability, count_cover_rounds, count_flows_needed
from trackbed.prove.pairing import (
    Pair,
    count_circle_rounds,
    find_resting_player,
    pair_by_circle,
    pair_halves,
    shift_rail,
)
from trackbed.prove.topology import FabricTopology, Uplinks

FLOWS = 32
"""Flows of a test that is spread over the uplinks, each with a source port of its own."""
LOAD = 0.75
"""Fraction of the uplinks that spread tests fill: with 32 flows a port, a link is full with a probability of 5 %."""
SCREEN_ROUNDS = 3
FIRST_SOURCE_PORT = 0xC000
"""RoCEv2 takes source ports from here on (InfiniBand architecture annex A17)."""
_SOURCE_PORTS = 0x4000
_PAIR = 2

RoundKind = Literal["near", "far", "cover", "full", "matrix", "repeat"]


class Round(NamedTuple):
    """Tests that run at once: test i is between ports a[i] and b[i].

    `source_ports` is empty if a test has FLOWS flows in both directions. Else test i is one flow from a[i] to b[i].
    """

    kind: RoundKind
    a: array[int]
    b: array[int]
    source_ports: array[int] = array("i")

    def restrict(self, nodes: Collection[int], rails: int) -> Round:
        """Return the tests of some nodes: those that came late, or whose values were lost."""
        wanted = frozenset(nodes)
        ends = enumerate(zip(self.a, self.b, strict=True))
        chosen = [index for index, (a, b) in ends if a // rails in wanted or b // rails in wanted]
        source_ports = array("i", (self.source_ports[index] for index in chosen if self.source_ports))
        a, b = (array("i", (ports[index] for index in chosen)) for ports in (self.a, self.b))
        return Round(self.kind, a, b, source_ports)


def plan_screen(topology: FabricTopology) -> Iterator[Round]:
    """Yield the three rounds of a screen, whatever the size of the fabric."""
    yield _build_round("near", (_screen_rail(topology, rail, 0, []) for rail in range(topology.rails)))
    for number in range(1, SCREEN_ROUNDS):
        rails = range(topology.rails)
        yield _build_round(
            "far", (_screen_rail(topology, rail, number, _match_leaves(topology, rail, number)) for rail in rails)
        )


def plan_full(topology: FabricTopology) -> Iterator[Round]:
    """Yield rounds in which each port meets each other port of its rail once, with any hash at full load."""
    rails = [[port for leaf in leaves for port in leaf] for leaves in topology.ports]
    for number in range(count_full_rounds(topology)):
        # A rail with fewer ports is done earlier.
        busy = (ports for ports in rails if number < count_circle_rounds(len(ports)))
        yield _build_round("full", (_select(ports, pair_by_circle(len(ports), number)) for ports in busy))


def count_full_rounds(topology: FabricTopology) -> int:
    """Return the rounds of `plan_full`: N - 1, or N if N is odd, for the N ports of the largest rail."""
    return max((count_circle_rounds(sum(map(len, leaves))) for leaves in topology.ports), default=0)


def plan_matrix(topology: FabricTopology) -> Iterator[Round]:
    """Yield one round for each shift of a latin square: rail r of a node with rail r + shift of its partner."""
    count = len(topology.nodes)
    for shift in range(topology.rails):
        yield _build_round("matrix", (_shift_rails(topology, pair, shift) for pair in pair_by_circle(count, shift)))


def plan_resting(topology: FabricTopology, rounds: Iterable[Round], kind: RoundKind) -> Round:
    """Return a round for the ports that `rounds` test with no other port of their rail.

    With an odd number of nodes one rests while each rail meets itself, and a rail may be missing on a partner. Of an
    odd number of leaves, one port may rest in each round of a screen.
    """
    rails = topology.rails
    ends = ((a, b) for tests in rounds for a, b in zip(tests.a, tests.b, strict=True))
    paired = {port for a, b in ends if a % rails == b % rails for port in (a, b)}
    return _build_round(kind, (_pair_resting(topology, rail, paired) for rail in range(rails)))


def _pair_resting(topology: FabricTopology, rail: int, paired: Collection[int]) -> Iterator[Pair]:
    ports = [port for leaf in topology.ports[rail] for port in leaf]
    resting = [port for port in ports if port not in paired]
    partners = resting + [port for port in ports if port in paired][: len(resting) % 2]
    return zip(partners[::2], partners[1::2], strict=False)


def plan_cover(topology: FabricTopology) -> Iterator[Round]:
    """Yield rounds of single flows between the leaves of a pod, each round with source ports of its own."""
    for number in range(count_rounds_of_cover(topology)):
        pairs = [list(_cover_rail(topology, rail, number)) for rail in range(topology.rails)]
        tests = _build_round("cover", pairs)
        source_port = FIRST_SOURCE_PORT + number % _SOURCE_PORTS
        yield tests._replace(source_ports=array("i", [source_port]) * len(tests.a))


def count_rounds_of_cover(topology: FabricTopology) -> int:
    """Return the rounds after which each link of each leaf was hit; 0 if no pod has two leaves on a rail."""
    most = 0
    for rail in range(topology.rails):
        for leaves in topology.iter_pods(rail):
            if len(leaves) > 1:
                rounds = count_cover_rounds(compute_round_probability(topology.uplinks, min(map(len, leaves))))
                # With an odd number of leaves, each rests in one round of as many.
                most = max(most, -(-rounds * count_circle_rounds(len(leaves)) // (len(leaves) - 1)))
    return most


def count_flows_of_cover(uplinks: Uplinks, ports: int) -> int:
    """Return the flows of a leaf in a cover round: a quarter of its links, so that most flows meet no other."""
    needed = count_flows_needed(1, uplinks.rate_share)
    return min(ports, max(needed, uplinks.links_per_leaf // 4))


def compute_round_probability(uplinks: Uplinks, ports: int) -> float:
    """Return the probability that one cover round hits a given link of a leaf with this number of ports.

    A flow counts for the link by which it leaves one leaf or enters the other. Too few ports to offer half the rate of
    a link give the probability of a single flow, as it is the most that these ports can do.
    """
    flows = count_flows_of_cover(uplinks, ports)
    needed = min(flows, count_flows_needed(1, uplinks.rate_share))
    return compute_hit_probability(flows, uplinks.links_per_leaf, needed)


def _screen_rail(topology: FabricTopology, rail: int, number: int, matches: Sequence[Pair]) -> Iterator[Pair]:
    rotated, resting = list(topology.ports[rail]), []
    limit = max(1, int(LOAD * topology.uplinks.links_per_leaf * topology.uplinks.rate_share))
    for first, second in matches:
        count = min(limit, len(rotated[first]), len(rotated[second]))
        ends = [_turn(rotated[first], count, number, 0), _turn(rotated[second], count, number, number)]
        yield from zip(ends[0][:count], ends[1][:count], strict=True)
        rotated[first], rotated[second] = ends[0][count:], ends[1][count:]
    for ports in rotated:
        yield from _select(ports, pair_by_circle(len(ports), number))
        player = find_resting_player(len(ports), number)
        resting += [] if player is None else [ports[player]]
    yield from _select(resting, pair_by_circle(len(resting), number - 1))


def _turn(ports: array[int], count: int, number: int, shift: int) -> array[int]:
    """Return the ports of a leaf, of which the first `count` meet another leaf, with other partners in each round.

    One of two leaves has a `shift`, since two alone match in each round. Ports that meet each other keep their order,
    or the circle would pair some as it did within the leaf.
    """
    if len(ports) - count < _PAIR:
        return _rotate(ports, shift)
    turned = _rotate(ports, number * len(ports) // 4)
    return _rotate(turned[:count], shift) + turned[count:]


def _match_leaves(topology: FabricTopology, rail: int, number: int) -> list[Pair]:
    """Return disjoint pairs of leaves: in the last round of a screen of two pods if possible, else of one pod."""
    leaves = topology.ports[rail]
    pods = [topology.pods[topology.leaf_of[leaf[0]]] for leaf in leaves]
    if number == SCREEN_ROUNDS - 1 and len(set(pods)) > 1:
        order = sorted(range(len(leaves)), key=pods.__getitem__)
        return list(_select(order, pair_halves(len(order))))
    members = [[index for index, leaf_pod in enumerate(pods) if leaf_pod == pod] for pod in dict.fromkeys(pods)]
    return [pair for pod in members for pair in _select(pod, pair_by_circle(len(pod), number - 1))]


def _cover_rail(topology: FabricTopology, rail: int, number: int) -> Iterator[Pair]:
    for leaves in topology.iter_pods(rail):
        for pair in pair_by_circle(len(leaves), number):
            ends = [leaves[index] for index in (pair if number % 2 else pair[::-1])]
            count = count_flows_of_cover(topology.uplinks, min(map(len, ends)))
            yield from zip(*(_rotate(leaf, number * count)[:count] for leaf in ends), strict=True)


def _shift_rails(topology: FabricTopology, pair: Pair, shift: int) -> Iterator[Pair]:
    for rail in range(topology.rails):
        ports = pair[0] * topology.rails + rail, pair[1] * topology.rails + shift_rail(rail, shift, topology.rails)
        if topology.leaf_of[ports[0]] >= 0 and topology.leaf_of[ports[1]] >= 0:
            yield ports


def _rotate(ports: array[int], offset: int) -> array[int]:
    start = offset % len(ports)
    return ports[start:] + ports[:start]


def _select(items: Sequence[int], pairs: Iterable[Pair]) -> Iterator[Pair]:
    return ((items[first], items[second]) for first, second in pairs)


def _build_round(kind: RoundKind, parts: Iterable[Iterable[Pair]]) -> Round:
    a, b = array("i"), array("i")
    add_a, add_b = a.append, b.append
    for part in parts:
        for first, second in part:
            add_a(first)
            add_b(second)
    return Round(kind, a, b)


def plan_rounds(topology: FabricTopology, mode: str) -> Iterator[Round]:
    """Yield the rounds of a mode; after those of a screen or matrix, rounds of the ports that rest in it, if any."""
    kind = _RESTING_KINDS.get(mode)
    rounds = []
    for tests in PLANNERS[mode](topology):
        rounds += [tests] if kind else []
        yield tests
    while kind and (resting := plan_resting(topology, rounds, kind)).a:  # each pairs ports that had no partner
        rounds.append(resting)
        yield resting


_RESTING_KINDS: dict[str, RoundKind] = {"screen": "far", "matrix": "matrix"}
"""Mode -> kind of the rounds of ports that rest in it; cover tests no two ports of one leaf, full leaves none out."""


def explain_unpaired(topology: FabricTopology, mode: str, port: int) -> str:
    """Return why a port has no test in a mode, and what to do."""
    rail = port % topology.rails
    if sum(map(len, topology.ports[rail])) < _PAIR:
        return f"no other chosen node has rail {rail}, so its port has no partner; choose another node that has it"
    if mode == "cover":
        return f"mode cover tests between leaves, and has no partner for its port of rail {rail}; use --mode screen"
    return f"mode {mode} has no partner for its port of rail {rail}; use --mode screen"


Planner = Callable[[FabricTopology], Iterator[Round]]
PLANNERS: dict[str, Planner] = {
    "screen": plan_screen,
    "cover": plan_cover,
    "full": plan_full,
    "matrix": plan_matrix,
}
"""The planner of each mode."""
