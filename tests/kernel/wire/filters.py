"""Rules of nf_tables that the tests need and the product does not."""

from trackbed.kernel.netlink import codec
from trackbed.kernel.wire.nftables import commit, message

_NEWTABLE, _NEWCHAIN, _NEWRULE = 0, 3, 6  # NFT_MSG_*
_IP = 2  # NFPROTO_IPV4


def add_rule(netns: int, table: str, chain: tuple[str, str, int, int], expression: str) -> None:
    """Make a base chain (name, type, hook number, priority) of family ip, accepting, with a rule of one expression."""
    name, kind, hook, priority = chain
    at_hook = codec.be32(1, hook) + codec.be32(2, priority % 2**32)
    chain_attributes = codec.string(1, table), codec.string(3, name), codec.nested(4, at_hook), codec.string(7, kind)
    rule = codec.nested(4, codec.nested(1, codec.string(1, expression)))  # NFTA_RULE_EXPRESSIONS of one NFTA_LIST_ELEM
    create, append = codec.NLM_F_CREATE, codec.NLM_F_CREATE | codec.NLM_F_APPEND
    wanted = (
        message(_NEWTABLE, _IP, codec.string(1, table), flags=create),
        message(_NEWCHAIN, _IP, *chain_attributes, flags=create),
        message(_NEWRULE, _IP, codec.string(1, table), codec.string(2, name), rule, flags=append),
    )
    commit(netns, wanted, 1.0)
