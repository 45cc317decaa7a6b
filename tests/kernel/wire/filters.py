"""nf_tables rules that only the tests need."""

from trackbed.kernel.netlink import codec
from trackbed.kernel.wire.nftables import build_message, commit

_NEWTABLE, _NEWCHAIN, _NEWRULE = 0, 3, 6  # NFT_MSG_*
_IP = 2  # NFPROTO_IPV4


def add_rule(netns: int, table: str, chain: tuple[str, str, int, int], expression: str) -> None:
    """Create an accepting base chain (name, type, hook number, priority) of family ip with a rule of one expression."""
    name, kind, hook, priority = chain
    hook_attributes = codec.pack_be32(1, hook) + codec.pack_be32(2, priority % 2**32)
    chain_attributes = (
        codec.pack_string(1, table),
        codec.pack_string(3, name),
        codec.pack_nested(4, hook_attributes),
        codec.pack_string(7, kind),
    )
    rule = codec.pack_nested(
        4, codec.pack_nested(1, codec.pack_string(1, expression))
    )  # NFTA_RULE_EXPRESSIONS of one NFTA_LIST_ELEM
    create, append = codec.NLM_F_CREATE, codec.NLM_F_CREATE | codec.NLM_F_APPEND
    messages = (
        build_message(_NEWTABLE, _IP, codec.pack_string(1, table), flags=create),
        build_message(_NEWCHAIN, _IP, *chain_attributes, flags=create),
        build_message(_NEWRULE, _IP, codec.pack_string(1, table), codec.pack_string(2, name), rule, flags=append),
    )
    commit(netns, messages, 1.0)
