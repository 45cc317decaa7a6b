"""Prints packages of uv.lock, and all that they depend on, as requirements for `pip install --require-hashes`.

    python tools/locked_requirements.py uv hatchling

It needs only the standard library, and so brings uv itself to where nothing is installed yet: the image's build. From
there on `uv export` writes the requirements.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any

LOCK = Path("uv.lock")


def main() -> None:
    """Print the requirements of the packages that the command line names."""
    sys.stdout.write("".join(f"{line}\n" for line in read_requirements(LOCK, sys.argv[1:])))


def read_requirements(lock: Path, names: list[str]) -> list[str]:
    """Return a requirement for each of the packages and of all that they depend on. Raises KeyError for another."""
    packages = {package["name"]: package for package in tomllib.loads(lock.read_text())["package"]}
    markers = dict.fromkeys(names, "")
    waiting = list(names)
    while waiting:
        for dependency in packages[waiting.pop()].get("dependencies", []):
            if dependency["name"] not in markers:
                markers[dependency["name"]] = dependency.get("marker", "")
                waiting.append(dependency["name"])
    return [_format_requirement(packages[name], marker) for name, marker in sorted(markers.items())]


def _format_requirement(package: dict[str, Any], marker: str) -> str:
    files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
    hashes = sorted({str(file["hash"]) for file in files})
    condition = f" ; {marker}" if marker else ""
    return " ".join([f"{package['name']}=={package['version']}{condition}", *(f"--hash={text}" for text in hashes)])


if __name__ == "__main__":
    main()
