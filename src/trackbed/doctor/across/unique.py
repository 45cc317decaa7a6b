"""Values that two nodes must not share: addresses, MAC addresses, GUIDs, host names and machine ids.

A leaf learns a MAC address on one port only (IEEE 802.1Q), and a subnet manager expects each GUID once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from trackbed.doctor.across.excerpt import HeldAddress, HeldMac, NodeExcerpt
from trackbed.doctor.across.occurrence import Holder, Occurrence, find_shared, select_repeated
from trackbed.doctor.finding import FaultEnd
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.plan import NodePlan


def find_shared_addresses(excerpts: Sequence[NodeExcerpt], nodes: Mapping[str, NodePlan]) -> Iterator[Occurrence]:
    """Yield addresses that are on several nodes; the planned holder comes first."""
    repeated = select_repeated(
        (held.text, (excerpt, held)) for excerpt in excerpts for held in _drop_repeated(excerpt.addresses or ())
    )
    planned = _map_planned_addresses(excerpts, nodes) if repeated else {}
    holders = [
        (text, Holder(_find_end(excerpt, held, planned), f"{label_node(excerpt)} {held.netdev}"))
        for text, (excerpt, held) in repeated
    ]
    holders.sort(key=lambda item: planned.get(item[0]) != item[1].end)
    yield from find_shared(holders)


def _map_planned_addresses(excerpts: Sequence[NodeExcerpt], nodes: Mapping[str, NodePlan]) -> dict[str, FaultEnd]:
    return {
        format_address(address.version, address.address): FaultEnd(excerpt.node, port.rail)
        for excerpt in excerpts
        for port in nodes[excerpt.node].ports
        for address in port.addresses
    }


def _drop_repeated(addresses: Iterable[HeldAddress]) -> Iterable[HeldAddress]:
    """Return each address once; one address on two ports of a node is a fault that its own doctor finds."""
    return {held.text: held for held in reversed(tuple(addresses))}.values()


def _find_end(excerpt: NodeExcerpt, held: HeldAddress, planned: Mapping[str, FaultEnd]) -> FaultEnd:
    """Return the end of a holder; an address that the node holds as planned is on its rail, whatever its interface."""
    end = planned.get(held.text)
    return end if end is not None and end.node == excerpt.node else FaultEnd(excerpt.node, held.rail)


def find_shared_macs(excerpts: Sequence[NodeExcerpt], _: Mapping[str, NodePlan]) -> Iterator[Occurrence]:
    """Yield MAC addresses that several ports or VFs of a rail have."""
    holders: dict[int, list[tuple[str, tuple[NodeExcerpt, HeldMac]]]] = {}
    for excerpt in excerpts:
        for held in excerpt.macs or ():
            holders.setdefault(held.rail, []).append((held.mac, (excerpt, held)))
    for rail, of_rail in sorted(holders.items()):
        yield from find_shared(
            (mac, Holder(FaultEnd(excerpt.node, rail), f"{label_node(excerpt)} {held.holder}"))
            for mac, (excerpt, held) in select_repeated(of_rail)
        )


def find_shared_guids(excerpts: Sequence[NodeExcerpt], _: Mapping[str, NodePlan]) -> Iterator[Occurrence]:
    """Yield GUIDs that several RDMA devices have."""
    repeated = select_repeated((guid, (excerpt, name)) for excerpt in excerpts for guid, name in excerpt.guids or ())
    yield from find_shared(
        (guid, Holder(FaultEnd(excerpt.node), f"{label_node(excerpt)} {name}")) for guid, (excerpt, name) in repeated
    )


def find_shared_names(excerpts: Sequence[NodeExcerpt], _: Mapping[str, NodePlan]) -> Iterator[Occurrence]:
    """Yield host names and machine ids that several nodes have."""
    repeated = select_repeated(
        (f"{text} ({path})", excerpt) for excerpt in excerpts for path, text in excerpt.identity or ()
    )
    yield from find_shared((name, Holder(FaultEnd(excerpt.node), label_node(excerpt))) for name, excerpt in repeated)


def label_node(excerpt: NodeExcerpt) -> str:
    """Return the node's name, and the archive that it was read of."""
    return f"{excerpt.node} ({excerpt.source})" if excerpt.source else excerpt.node
