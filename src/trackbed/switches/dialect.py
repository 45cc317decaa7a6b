"""A network operating system: port names, rendering of a leaf, and reading of a configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trackbed.fabric.plan.plan import QosPlan
from trackbed.switches.comparison import Mismatch, compare_leaf
from trackbed.switches.leaf import Leaf
from trackbed.switches.port_config import PortConfig


@dataclass(frozen=True, slots=True)
class Dialect:
    """One network operating system."""

    name: str
    suffix: str
    """Suffix of a leaf's file name."""
    holds_many: bool
    """Whether the configurations of several leaves may follow each other in one text."""
    is_written: Callable[[bytes], bool]
    """Return whether a configuration is one of this system."""
    list_ports: Callable[[int], tuple[str, ...]]
    """Return the first COUNT front-panel ports, the default of --ports."""
    render: Callable[[Leaf], str]
    parse: Callable[[bytes], Any]
    """Parse a configuration into a tree; raises UnreadableError."""
    read_hostname: Callable[[Any], str]
    read_port: Callable[[Any, str, QosPlan], PortConfig | None]
    read_gateways: Callable[[Any, int], frozenset[str]]
    fixes: Mapping[str, str]
    """Code of a mismatch -> fix, with placeholders."""


def find_mismatches(leaf: Leaf, dialect: Dialect, tree: Any) -> list[Mismatch]:  # noqa: ANN401 - the tree's type depends on the dialect
    """Return the mismatches between a switch's configuration and the hosts of this leaf."""
    return compare_leaf(
        leaf,
        lambda name: dialect.read_port(tree, name, leaf.qos),
        lambda vlan: dialect.read_gateways(tree, vlan),
        dialect.fixes,
    )
