"""Properties that are the same on all nodes with the same hardware: firmware, driver, order of the rails."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from trackbed.doctor.across.excerpt import NodeExcerpt, RailOrder
from trackbed.doctor.across.occurrence import Occurrence
from trackbed.doctor.finding import FaultEnd
from trackbed.fabric.plan.plan import NodePlan

_Places = dict[str, list[tuple[str, int | None]]]
"""Version -> node and rail of each port that has it, or node alone."""


def find_firmware(excerpts: Sequence[NodeExcerpt], _: Mapping[str, NodePlan]) -> Iterator[Occurrence]:
    """Yield, for each model and version, the ports whose version is not the most common one of their model."""
    by_model: dict[str, _Places] = {}
    for excerpt in excerpts:
        for firmware in excerpt.firmware or ():
            places = by_model.setdefault(firmware.model, {}).setdefault(firmware.version, [])
            places.append((excerpt.node, firmware.rail))
    for model, versions in by_model.items():
        yield from _find_unusual(versions, "firmware of NIC " + model, "ports")


def find_drivers(excerpts: Sequence[NodeExcerpt], _: Mapping[str, NodePlan]) -> Iterator[Occurrence]:
    """Yield, for each version, the nodes whose mlx5_core has not the most common version."""
    versions: _Places = {}
    for excerpt in excerpts:
        if excerpt.driver:
            versions.setdefault(excerpt.driver, []).append((excerpt.node, None))
    yield from _find_unusual(versions, "mlx5_core", "nodes")


def _find_unusual(versions: _Places, subject: str, unit: str) -> Iterator[Occurrence]:
    common, usual_places = max(versions.items(), key=lambda item: (len(item[1]), item[0]), default=("", []))
    total = sum(map(len, versions.values()))
    for version in [name for name in versions if name != common]:
        usual, ends = FaultEnd(*usual_places[0]), tuple(FaultEnd(*place) for place in versions[version])
        evidence = f"{subject} {version} at {ends[0]}, {common} at {usual} and {len(usual_places)} of {total} {unit}"
        yield Occurrence((*ends, usual), evidence)


def find_rail_orders(excerpts: Sequence[NodeExcerpt], _: Mapping[str, NodePlan]) -> Iterator[Occurrence]:
    """Yield each node whose rails are not in the same order as on most nodes with the same NICs."""
    by_hardware: dict[str, list[tuple[str, RailOrder]]] = {}
    for excerpt in excerpts:
        for order in excerpt.rail_order or ():
            by_hardware.setdefault(order.hardware, []).append((excerpt.node, order))
    for orders in by_hardware.values():
        usual, _count = Counter(order.positions for _, order in orders).most_common(1)[0]
        reference = next(item for item in orders if item[1].positions == usual)
        for name, order in orders:
            if order.positions != usual:
                yield Occurrence((FaultEnd(name), FaultEnd(reference[0])), _compare_orders(order, reference))


def _compare_orders(order: RailOrder, reference: tuple[str, RailOrder]) -> str:
    name, usual = reference
    pairs = zip(order.positions, usual.positions, strict=False)
    wrong = [f"rail {actual.rail}: {actual}, on {name} {other}" for actual, other in pairs if actual != other]
    return "; ".join(wrong[:3])
