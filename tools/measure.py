"""Print the figures of the house, with one column for each root: `python -m tools.measure ROOT [ROOT...] [--names]`.

The lab is `packages/trackbed-lab/src`, and what is left of it in `src/trackbed/lab` and `src/trackbed/cli/lab`. The
product is every other Python file in `src` and `packages/*/src`. What is counted:

- layers, longest chain: rooms on the longest chain of imports between rooms, those inside functions included.
- arrows up: imported names against the declared layers, or between rooms that are declared independent.
- circles between modules: strongly connected components of the modules of product and lab.
- types of one name: class names that two or more rooms define; the lab is a room.
- banned among assigned: the names of `tools.words.BANNED` among the names that the product binds by assignment, loop,
  comprehension, `with`, `:=`, `except` or `match`, in percent; parameters are not counted. Commit 2ce1974 gives 8.7 %.
- statements: the `ast.stmt` nodes of the product. Commit 2ce1974 gives 33,557.
- shell and Go: lines of `*.sh` and `*.go` files; shell inside Python strings is not counted.
- public docstrings: share of the product's public modules, classes, functions and methods that have one.
"""

import argparse
import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Final

from tools.import_graph import measure_imports
from tools.words import BANNED, find_room, group_rooms, iter_assigned, iter_classes

_LAB: Final = ("packages/trackbed-lab/", "src/trackbed/lab/", "src/trackbed/cli/lab/")
_SHORT_FILE: Final = 35
_LONG_FUNCTION: Final = 40
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """A Python file: its path below the root, its path below its source folder, and its text."""

    path: str
    module: PurePath
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of its syntax tree."""
        return list(ast.walk(self.tree))

    @property
    def lines(self) -> int:
        """The number of its lines."""
        return len(self.text.splitlines())


def main(arguments: list[str] | None = None) -> int:
    """Print the table, and with --names the types that several rooms define."""
    parser = argparse.ArgumentParser(prog="tools.measure", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("roots", nargs="+", type=Path, metavar="ROOT")
    parser.add_argument("--names", action="store_true", help="list the types that two or more rooms define")
    options = parser.parse_args(arguments)
    sources = {str(root): load_sources(root) for root in options.roots}
    columns = [measure(root, sources[str(root)]) for root in options.roots]
    rows = [["", *sources], *([label, *(column[label] for column in columns)] for label in columns[0])]
    sys.stdout.writelines(render_table(rows))
    for root in sources if options.names else ():
        sys.stdout.write(f"\nTypes that two or more rooms of {root} define:\n")
        shared = sorted(find_shared_types(sources[root]).items())
        sys.stdout.writelines(f"{name}: {', '.join(sorted(rooms))}\n" for name, rooms in shared)
    return 0


def render_table(rows: list[list[str]]) -> Iterator[str]:
    """Yield the lines of a table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for label, *figures in rows:
        aligned = [figure.rjust(width) for figure, width in zip(figures, widths[1:], strict=True)]
        yield "  ".join([label.ljust(widths[0]), *aligned]) + "\n"


def list_folders(root: Path) -> list[Path]:
    """Return the source folders of a root."""
    return [root / "src", *root.glob("packages/*/src")]


def load_sources(root: Path) -> list[Source]:
    """Return the Python files of product and lab."""
    return [
        Source(path.relative_to(root).as_posix(), path.relative_to(folder), path.read_text())
        for folder in list_folders(root)
        for path in sorted(folder.glob("**/*.py"))
    ]


def measure(root: Path, sources: list[Source]) -> dict[str, str]:
    """Return the figures of a root by their labels."""
    lab = [source for source in sources if source.path.startswith(_LAB)]
    product = [source for source in sources if not source.path.startswith(_LAB)]
    figures = measure_imports(root, {source.module: source.tree for source in sources}) | {
        "files of the product": len(product),
        "files of the lab": len(lab),
        "lines of the product": sum(source.lines for source in product),
        "lines of the lab": sum(source.lines for source in lab),
        f"files under {_SHORT_FILE} lines": sum(source.lines < _SHORT_FILE for source in product),
        f"functions over {_LONG_FUNCTION} lines": sum(map(is_long, iter_nodes(product))),
        "types of one name in several rooms": len(find_shared_types(sources)),
        "statements": sum(isinstance(node, ast.stmt) for node in iter_nodes(product)),
        "lines of shell": count_lines(root, "*.sh"),
        "lines of Go": count_lines(root, "*.go"),
    }
    names = [name in BANNED for name, _ in iter_assigned(iter_nodes(product))]
    documented = [bool(ast.get_docstring(node)) for source in product for node in iter_public(source)]
    shares = {"banned among assigned": to_percent(names), "public docstrings": to_percent(documented)}
    return {label: f"{figure:,}" for label, figure in figures.items()} | shares


def iter_nodes(sources: Iterable[Source]) -> Iterator[ast.AST]:
    """Yield every node of the sources."""
    return (node for source in sources for node in source.nodes)


def is_long(node: ast.AST) -> bool:
    """Return whether a node is a function that is too long from `def` to its end."""
    return isinstance(node, _Function) and (node.end_lineno or 0) - node.lineno >= _LONG_FUNCTION


def to_percent(facts: list[bool]) -> str:
    """Return the share of true values."""
    return f"{100 * sum(facts) / max(len(facts), 1):.1f} %"


def count_lines(root: Path, pattern: str) -> int:
    """Return the lines of the product's files that match the pattern."""
    paths = [path for folder in list_folders(root) for path in folder.glob(f"**/{pattern}")]
    product = [path for path in paths if not path.relative_to(root).as_posix().startswith(_LAB)]
    return sum(len(path.read_text().splitlines()) for path in product)


def find_shared_types(sources: list[Source]) -> dict[str, set[str]]:
    """Return the class names that two or more rooms define, with the rooms."""
    places = [(node.name, find_room(source.path)) for source in sources for node in iter_classes(source.nodes)]
    rooms = group_rooms((name, room) for name, room in places if room)
    return {name: sharers for name, sharers in rooms.items() if len(sharers) > 1}


def iter_public(source: Source) -> Iterator[ast.Module | ast.ClassDef | _Function]:
    """Yield a module and the classes, functions and methods in it, as far as they are public."""
    if any(part.startswith("_") and part != "__init__.py" for part in source.module.parts):
        return
    scopes: list[ast.Module | ast.ClassDef] = [source.tree]
    yield source.tree
    while scopes:
        for node in scopes.pop().body:
            if isinstance(node, ast.ClassDef | _Function) and not node.name.startswith("_"):
                yield node
                scopes += [node] if isinstance(node, ast.ClassDef) else []


if __name__ == "__main__":
    sys.exit(main())
