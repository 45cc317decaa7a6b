"""The probability that a link between leaf and spine carried a test.

ECMP hashes a flow by its addresses and ports to one of the n links of its leaf; the hash is unknown. Of f flows, the
number on one link is binomial with probability 1/n. A link is hit in a round if its flows offer half of its rate.
Example: 32 links, 8 flows of the full rate: each is hit with 1 - (31/32)^8 = 0.22.
"""

import math

COVER_PROBABILITY = 0.999
"""Probability with which a cover hits each link: a link that was not hit cannot be named."""
_HALF = 0.5


def count_flows_needed(flow_share: float, link_share: float) -> int:
    """Return the flows that offer half the rate of a link. Shares are fractions of the rate of a port."""
    return max(1, math.ceil(_HALF * link_share / flow_share - 1e-9))


def compute_hit_probability(flows: int, links: int, needed: int) -> float:
    """Return the probability that `needed` or more of `flows` are hashed to one of `links`."""
    if links == 1:
        return float(flows >= needed)
    missed = sum(
        math.comb(flows, hits) * (1 / links) ** hits * (1 - 1 / links) ** (flows - hits)
        for hits in range(min(needed, flows + 1))
    )
    return max(0.0, 1 - missed)


def combine_rounds(probability: float, rounds: int) -> float:
    """Return the probability of a hit in at least one of `rounds` independent rounds."""
    return float(1 - (1 - probability) ** rounds)


def count_cover_rounds(probability: float) -> int:
    """Return the rounds until a link was hit with COVER_PROBABILITY; `probability` is that of one round, above 0."""
    if probability >= COVER_PROBABILITY:
        return 1
    return math.ceil(math.log(1 - COVER_PROBABILITY) / math.log(1 - probability))
