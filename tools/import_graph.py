"""Read the imports between modules, and find the circles and the longest chain of a graph.

Imports under TYPE_CHECKING are imports. Modules that are only named in a string (`import_module`) are not seen.
"""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

Graph = Mapping[str, set[str]]
"""What each node points to. A node that points to nothing may be absent."""


@dataclass(frozen=True, slots=True)
class Import:
    """An import of one module by another; deferred when it stands inside a function."""

    importer: str
    imported: str
    deferred: bool


def name_module(path: PurePath) -> str:
    """Return the dotted name of a file below its source folder."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def read_imports(trees: Mapping[PurePath, ast.Module]) -> list[Import]:
    """Return the imports among the modules, whose paths are relative to their source folder."""
    modules = {name_module(path) for path in trees}
    return [
        Import(name_module(path), target, deferred)
        for path, tree in trees.items()
        for node, deferred in iter_statements(tree)
        for name in name_targets(node, path)
        if (target := resolve(name, modules))
    ]


def iter_statements(node: ast.AST, *, deferred: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yield the import statements below a node, with whether each stands inside a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, deferred
        elif not isinstance(child, ast.expr):
            inside = deferred or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from iter_statements(child, deferred=inside)


def name_targets(node: ast.Import | ast.ImportFrom, path: PurePath) -> list[str]:
    """Return the dotted names that a statement of the module at the path imports; they may end in an attribute."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    package = path.parts[: len(path.parts) - node.level] if node.level else ()
    base = ".".join([*package, *([node.module] if node.module else [])])
    return [f"{base}.{alias.name}" for alias in node.names]


def resolve(name: str, modules: set[str]) -> str | None:
    """Return the module that a dotted name is, or has as attribute; None for a module of others."""
    parent = name.rpartition(".")[0]
    return name if name in modules else parent if parent in modules else None


def build_graph(pairs: Iterable[tuple[str, str]]) -> Graph:
    """Return the graph of the pairs (from, to) without those from a node to itself."""
    graph: dict[str, set[str]] = defaultdict(set)
    for source, target in pairs:
        if source != target:
            graph[source].add(target)
    return dict(graph)


def find_reachable(graph: Graph, start: str) -> set[str]:
    """Return the nodes that can be reached from one, itself only if it lies on a circle."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        fresh = graph.get(waiting.pop(), set()) - reached
        reached |= fresh
        waiting += fresh
    return reached


def find_circles(graph: Graph) -> set[frozenset[str]]:
    """Return the strongly connected components of more than one node."""
    reached = {node: find_reachable(graph, node) for node in graph}
    return {
        frozenset(other for other in others if node in reached.get(other, ()))
        for node, others in reached.items()
        if node in others
    }


def measure_depth(graph: Graph) -> int:
    """Return the number of nodes on the longest chain; a circle counts as one."""
    reached = {node: find_reachable(graph, node) for node in graph}
    depths: dict[str, int] = {}

    def measure(node: str) -> int:
        if node not in depths:
            below = [other for other in reached.get(node, ()) if node not in reached.get(other, ())]
            depths[node] = 1 + max(map(measure, below), default=0)
        return depths[node]

    return max(map(measure, graph), default=1)


def measure_imports(root: Path, trees: Mapping[PurePath, ast.Module]) -> dict[str, int]:
    """Return the figures of the import graph."""
    imports = read_imports(trees)
    rooms = {path.parent.name for path in root.glob("src/trackbed/*/__init__.py")}
    layers = load_layers(root)
    arrows = [(find_area(edge.importer), find_area(edge.imported)) for edge in imports]
    graph = build_graph((importer, imported) for importer, imported in arrows if {importer, imported} <= rooms)
    return {
        "rooms": len(rooms),
        "layers, longest chain": measure_depth(graph),
        "layers, declared": len(layers),
        "arrows up": count_arrows_up(arrows, layers),
        "circles between rooms": len(find_circles(graph)),
        "circles between modules": len(find_circles(build_modules(imports, deferred=False))),
        "circles, imports in functions included": len(find_circles(build_modules(imports, deferred=True))),
    }


def build_modules(imports: list[Import], *, deferred: bool) -> Graph:
    """Return the graph of the modules, with or without the imports inside functions."""
    return build_graph((edge.importer, edge.imported) for edge in imports if deferred or not edge.deferred)


def find_area(module: str) -> str:
    """Return the package below `trackbed` that a module belongs to, or nothing."""
    head, _, tail = module.partition(".")
    return tail.partition(".")[0] if head == "trackbed" else ""


def load_layers(root: Path) -> list[list[str]]:
    """Return the declared layers from the top, each with its rooms."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    for contract in contracts:
        if contract["type"] == "layers" and contract.get("containers") == ["trackbed"]:
            return [re.findall(r"\w+", layer) for layer in contract["layers"]]
    return []


def count_arrows_up(arrows: list[tuple[str, str]], layers: list[list[str]]) -> int:
    """Return how many imports go from a room to another of the same layer or a higher one."""
    ranks = {room: rank for rank, rooms in enumerate(layers) for room in rooms}
    declared = [arrow for arrow in arrows if ranks.keys() >= set(arrow) and arrow[0] != arrow[1]]
    return sum(ranks[imported] <= ranks[importer] for importer, imported in declared)
