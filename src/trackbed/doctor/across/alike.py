"""Properties that are the same on all nodes with the same hardware: firmware, driver, order of the rails."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from trackbed.doctor.across.excerpt import NodeExcerpt, RailOrder
from trackbed.doctor.across.occurrence import Occurrence
from trackbed.doctor.finding import FaultEnd
from trackbed.fabric.plan.plan import NodePlan


def find_firmware(excerpts: Sequence[NodeExcerpt], _: Mapping[str, NodePlan]) -> Iterator[Occurrence]:
    """Yield, for each model and version, the ports whose version is not the most common one of their model."""
    versions = [
        (FaultEnd(excerpt.node, firmware.rail), firmware) for excerpt in excerpts for firmware in excerpt.firmware or ()
    ]
    for model in dict.fromkeys(firmware.model for _, firmware in versions):
        labels = [(end, firmware.version) for end, firmware in versions if firmware.model == model]
        yield from _find_unusual(labels, "firmware of NIC " + model, "ports")


def find_drivers(excerpts: Sequence[NodeExcerpt], _: Mapping[str, NodePlan]) -> Iterator[Occurrence]:
    """Yield, for each version, the nodes whose mlx5_core has not the most common version."""
    versions = [(FaultEnd(excerpt.node), excerpt.driver) for excerpt in excerpts if excerpt.driver]
    yield from _find_unusual(versions, "mlx5_core", "nodes")


def _find_unusual(labels: Sequence[tuple[FaultEnd, str]], subject: str, unit: str) -> Iterator[Occurrence]:
    counts = Counter(label for _, label in labels)
    if not counts:
        return
    common, count = max(counts.items(), key=lambda item: (item[1], item[0]))
    usual = next(end for end, label in labels if label == common)
    for version in counts.keys() - {common}:
        ends = tuple(end for end, label in labels if label == version)
        evidence = f"{subject} {version} at {ends[0]}, {common} at {usual} and {count} of {len(labels)} {unit}"
        yield Occurrence((*ends, usual), evidence)


def find_rail_orders(excerpts: Sequence[NodeExcerpt], _: Mapping[str, NodePlan]) -> Iterator[Occurrence]:
    """Yield each node whose rails are not in the same order as on most nodes with the same NICs."""
    orders = [(excerpt.node, order) for excerpt in excerpts for order in excerpt.rail_order or ()]
    for hardware in dict.fromkeys(order.hardware for _, order in orders):
        alike = [(name, order) for name, order in orders if order.hardware == hardware]
        usual, _count = Counter(order.positions for _, order in alike).most_common(1)[0]
        reference = next(item for item in alike if item[1].positions == usual)
        for name, order in alike:
            if order.positions != usual:
                yield Occurrence((FaultEnd(name), FaultEnd(reference[0])), _compare_orders(order, reference))


def _compare_orders(order: RailOrder, reference: tuple[str, RailOrder]) -> str:
    name, usual = reference
    pairs = zip(order.positions, usual.positions, strict=False)
    wrong = [f"rail {actual.rail}: {actual}, on {name} {other}" for actual, other in pairs if actual != other]
    return "; ".join(wrong[:3])
