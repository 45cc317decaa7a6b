"""Check that functions are named by verbs, values by nouns, and that a class name belongs to one room.

Run `python -m tools.words [PATH...]` in the root of the repository. Without a PATH it checks the tree, except the path
prefixes in `tools/words_pending.txt` (one a line; `#` starts a comment). With PATHs it reports what lies under them,
pending or not. The exit code is 1 when a problem was reported. The words are in `tools/words.toml`.
"""

import argparse
import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

_WORDS: Final = {
    section: {key: tuple(words.split()) for key, words in table.items()}
    for section, table in tomllib.loads(Path(__file__).with_suffix(".toml").read_text()).items()
}
_ACCEPTED: Final = _WORDS["accepted"]
BANNED: Final = frozenset(_WORDS["values"]["empty"])
_BANNED_OR_VAGUE: Final = BANNED | set(_WORDS["values"]["vague"])
_SORTS: Final = {word: sort for sort, words in _WORDS["functions"].items() for word in words}
_PENDING: Final = Path("tools/words_pending.txt")
_FOLDERS: Final = ("src", "packages/*/src", "tools", "bench", "tests")
_BATCH: Final = 40
"""Files that a worker process is handed at once."""

_CLASS: Final = "is also a class in {}; give each its own name, or share one class"
_VALUE: Final = "says nothing of the value; use the noun of the thing (response, port, address)"
_FUNCTION: Final = "begins with a word that is no verb ({}); begin with a verb (read_, is_, to_, wait_for_)"


@dataclass(frozen=True, slots=True)
class Problem:
    """A name that breaks a rule."""

    path: str
    line: int
    name: str
    text: str
    room: str = ""
    """Room of a class. Such a problem is a candidate until the classes of all rooms are known."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name}: {self.text}"


def main(arguments: list[str] | None = None) -> int:
    """Print the problems under the paths, or of the whole tree; return the exit code."""
    parser = argparse.ArgumentParser(prog="tools.words", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    prefixes = [str(path) for path in parser.parse_args(arguments).paths]
    problems = check_tree([] if prefixes else load_pending(_PENDING))
    chosen = [problem for problem in problems if not prefixes or is_under(problem.path, prefixes)]
    sys.stdout.writelines(f"{problem}\n" for problem in chosen)
    return 1 if chosen else 0


def load_pending(path: Path) -> list[str]:
    """Return the path prefixes that are not checked yet."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [prefix for line in lines if (prefix := line.partition("#")[0].strip())]


def is_under(path: str, prefixes: Iterable[str]) -> bool:
    """Return whether the path is one of the prefixes or lies in a folder that is one."""
    return any(path == prefix or path.startswith(prefix.rstrip("/") + "/") for prefix in prefixes)


def check_tree(pending: list[str]) -> list[Problem]:
    """Return the problems of the files below the current folder that are not pending, sorted by place."""
    files = [str(path) for pattern in _FOLDERS for folder in Path().glob(pattern) for path in folder.glob("**/*.py")]
    with ProcessPoolExecutor() as pool:
        batches = pool.map(check_file, [path for path in files if not is_under(path, pending)], chunksize=_BATCH)
        problems = [problem for batch in batches for problem in batch]
    return sorted(drop_unshared(problems), key=lambda problem: (problem.path, problem.line))


def check_file(path: str) -> list[Problem]:
    """Return the problems of one file; tests are checked for the names of values only."""
    nodes = list(ast.walk(ast.parse(Path(path).read_text())))
    encoded = set(iter_encoded(nodes))
    places = [place for place in (*iter_assigned(nodes), *iter_parameters(nodes)) if place not in encoded]
    problems = [Problem(path, line, name, _VALUE) for name, line in places if name.strip("_") in _BANNED_OR_VAGUE]
    if not path.startswith("tests/"):
        problems += [
            Problem(path, function.lineno, function.name, _FUNCTION.format(sort))
            for function in iter_functions(nodes)
            if (sort := classify_name(function.name))
        ]
    if room := find_room(path):
        problems += [Problem(path, node.lineno, node.name, "", room) for node in iter_classes(nodes)]
    return problems


def iter_assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield the names that are bound by assignment, loop, comprehension, `with`, `:=`, `except` or `match`."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node.lineno


def iter_encoded(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield the fields of classes that other programs read by these names."""
    for node in iter_classes(nodes):
        for field in node.body:
            match field:
                case ast.AnnAssign(target=ast.Name(id=name)) if f"{node.name}.{name}" in _ACCEPTED["encoded_fields"]:
                    yield name, field.lineno


def iter_parameters(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield the parameters of functions and lambdas, and the attributes that are assigned."""
    for node in nodes:
        if isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def iter_classes(nodes: Iterable[ast.AST]) -> Iterator[ast.ClassDef]:
    """Yield the classes, nested classes included."""
    return (node for node in nodes if isinstance(node, ast.ClassDef))


def iter_functions(nodes: Iterable[ast.AST]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions and methods whose names are their author's choice and must be verbs."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith(("__", "test_")):
            decorators = {ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list}
            if not any(name.rpartition(".")[2] in _ACCEPTED["decorators"] for name in decorators):
                yield node


def classify_name(name: str) -> str | None:
    """Return the part of speech of a function's first word, or None where it may be a verb."""
    plain = name.strip("_")
    word = plain.partition("_")[0]
    if plain.startswith(_ACCEPTED["phrases"]) or word in _ACCEPTED["not_participles"]:
        return None
    return _SORTS.get(word) or ("participle" if word.endswith(("ed", "ing")) else None)


def find_room(path: str) -> str | None:
    """Return the room of a product file: a package below `src/trackbed`, or NAME of `packages/trackbed-NAME`."""
    match Path(path).parts:
        case ("src", "trackbed", room, _, *_):
            return room
        case ("packages", package, *_):
            return package.removeprefix("trackbed-")
    return None


def drop_unshared(problems: list[Problem]) -> Iterator[Problem]:
    """Yield the problems without the candidates whose class name only one room has."""
    rooms = group_rooms((problem.name, problem.room) for problem in problems if problem.room)
    for problem in problems:
        others = rooms[problem.name] - {problem.room}
        if not problem.room:
            yield problem
        elif others and problem.name not in _ACCEPTED["classes"]:
            yield replace(problem, text=_CLASS.format(", ".join(sorted(others))))


def group_rooms(classes: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Return the rooms that define a class of each name."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for name, room in classes:
        rooms[name].add(room)
    return rooms


if __name__ == "__main__":
    sys.exit(main())
