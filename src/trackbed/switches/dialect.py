"""Dialect of a network operating system: its port names, the renderer of a leaf, the reader of a configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trackbed.fabric.plan.plan import QosPlan
from trackbed.switches.comparison import Mismatch, compare_leaf
from trackbed.switches.leaf import Leaf
from trackbed.switches.port_config import PortConfig


@dataclass(frozen=True, slots=True)
class Dialect:
    """The functions and texts for one network operating system."""

    name: str
    suffix: str
    """Suffix of a leaf's file name."""
    allows_concatenation: bool
    """Whether the configurations of several leaves may be concatenated in one text."""
    recognizes: Callable[[bytes], bool]
    """Return whether a configuration is of this system."""
    list_ports: Callable[[int], tuple[str, ...]]
    """Return the names of the first COUNT front-panel ports, which are the default for --ports."""
    render: Callable[[Leaf], str]
    parse: Callable[[bytes], Any]
    """Parse a configuration into a tree, whose type depends on the dialect; raises UnreadableError."""
    read_hostname: Callable[[Any], str]
    read_port: Callable[[Any, str, QosPlan], PortConfig | None]
    read_gateways: Callable[[Any, int], frozenset[str]]
    fixes: Mapping[str, str]
    """Code of a mismatch -> its fix, with placeholders."""
    choose_fixes: Callable[[Any], Mapping[str, str]] | None = None
    """Return the fixes in the commands of a configuration's release; None if all releases have the same commands."""
    list_discarding_peers: Callable[[Any], frozenset[str]] | None = None
    """Return the BGP neighbours, by address or port, whose routes the switch discards because they have no policy.

    None if the system needs no policy.
    """


def find_mismatches(leaf: Leaf, dialect: Dialect, tree: Any) -> list[Mismatch]:  # noqa: ANN401 - the tree's type depends on the dialect
    """Return the mismatches between a leaf and its switch's parsed configuration."""
    discarding_peers = dialect.list_discarding_peers(tree) if dialect.list_discarding_peers else frozenset[str]()
    return compare_leaf(
        leaf,
        lambda name: dialect.read_port(tree, name, leaf.qos),
        lambda vlan: dialect.read_gateways(tree, vlan),
        dialect.choose_fixes(tree) if dialect.choose_fixes else dialect.fixes,
        discarding_peers,
    )
