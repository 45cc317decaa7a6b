"""Print the share of the statements that ran, one line for each room, from the data of the last `coverage run`."""

import sys
from collections import Counter
from pathlib import Path
from typing import Final

from coverage import Coverage

_ROOT: Final = Path(__file__).parents[1]


def main() -> None:
    """Print the table."""
    coverage = Coverage(data_file=sys.argv[1])
    coverage.load()
    totals: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for path in list_sources():
        _, statements, _, absent, _ = coverage.analysis2(str(path))
        for name in (find_room(path), "all"):
            totals[name] += len(statements)
            missing[name] += len(absent)
    for name, total in sorted(totals.items()):
        sys.stdout.write(f"{name:10} {1 - missing[name] / total:5.0%} of {total:6,} statements\n")


def list_sources() -> list[Path]:
    """Return the Python files of the product and of the lab."""
    return [path for folder in (_ROOT / "src", _ROOT / "packages") for path in sorted(folder.glob("**/*.py"))]


def find_room(path: Path) -> str:
    """Return the folder below `src/trackbed` that a file is in, or `lab`."""
    match path.relative_to(_ROOT).parts:
        case ("src", "trackbed", room, _, *_):
            return room
        case ("src", *_):
            return "trackbed"
    return "lab"


if __name__ == "__main__":
    main()
