"""The results that a culprit concerns, and the culprit that explains a result, without a look at all of them each time.

A proof of 1024 nodes has tens of thousands of results, and may have a thousand culprits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from trackbed.prove.culprits import Culprit, concerns
from trackbed.prove.proof import Proof
from trackbed.prove.results import PathResult
from trackbed.prove.topology import FabricTopology


class ResultIndex(NamedTuple):
    """Results by rung, and by rung and port."""

    by_rung: dict[str, list[PathResult]]
    by_port: dict[tuple[str, int], list[PathResult]]


def index_results(results: Iterable[PathResult]) -> ResultIndex:
    """Return an index of results; a port that is tested alone has its result once."""
    index = ResultIndex(defaultdict(list), defaultdict(list))
    for result in results:
        index.by_rung[result.rung].append(result)
        for port in {result.test.a, result.test.b}:
            index.by_port[result.rung, port].append(result)
    return index


def list_concerned(index: ResultIndex, rung: str, culprit: Culprit, topology: FabricTopology) -> list[PathResult]:
    """Return the results of a rung whose tests run over a culprit."""
    if culprit.nodes:
        of_ports = (index.by_port.get((rung, port), ()) for port in list_ports(culprit, topology.rails))
        return list({id(result): result for results in of_ports for result in results}.values())
    results = index.by_rung.get(rung, ())
    return [result for result in results if concerns(culprit, result.test.a, result.test.b, topology)]


def list_ports(culprit: Culprit, rails: int) -> list[int]:
    """Return the ports of the nodes of a culprit, on its rail where it has one."""
    chosen = range(rails) if culprit.rail is None else (culprit.rail,)
    return [node * rails + rail for node in culprit.nodes for rail in chosen]


def build_finder(proof: Proof) -> Callable[[PathResult], Culprit | None]:
    """Return a function from a bad result to the first culprit of its rung that explains it; None if there is none."""
    by_port: dict[tuple[str, int], int] = {}
    wide: dict[str, list[int]] = defaultdict(list)
    for number, blamed in enumerate(proof.culprits):
        for port in list_ports(blamed.culprit, proof.topology.rails):
            by_port.setdefault((blamed.rung, port), number)
        if not blamed.culprit.nodes:
            wide[blamed.rung].append(number)

    def find(result: PathResult) -> Culprit | None:
        ends = result.test.a, result.test.b
        numbers = [by_port[result.rung, port] for port in ends if (result.rung, port) in by_port]
        of_fabric = (n for n in wide[result.rung] if concerns(proof.culprits[n].culprit, *ends, proof.topology))
        numbers += [first] if (first := next(of_fabric, None)) is not None else []
        return proof.culprits[min(numbers)].culprit if numbers else None

    return find
