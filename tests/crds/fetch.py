"""Fetches the CRDs that rendered objects are tried against, from their projects' repositories, by commit.

Use: python3 tests/crds/fetch.py FOLDER [URL]. It needs only the standard library. URL is that of the repositories; the
default is GitHub's. Each line of `upstream.txt` is a component, a repository, a commit and the path of a file. Of
several documents in a file only the CustomResourceDefinitions are kept. TRACKBED_CRDS then names FOLDER for the tests.
"""

import re
import sys
from pathlib import Path
from urllib.request import urlopen

LIST = Path(__file__).parent / "upstream.txt"
GITHUB = "https://raw.githubusercontent.com"
_SECONDS = 60
_MAX_BYTES = 16 << 20


def main(folder: Path, url: str = GITHUB) -> None:
    """Write each file of the list to the folder of its component. Raises OSError."""
    for component, repository, commit, path in map(str.split, LIST.read_text().splitlines()):
        with urlopen(f"{url}/{repository}/{commit}/{path}", timeout=_SECONDS) as response:  # noqa: S310 - URL of caller
            text = response.read(_MAX_BYTES).decode()
        place = folder / component / Path(path).name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(select_definitions(text))


def select_definitions(text: str) -> str:
    """Return the documents of a YAML file that are CustomResourceDefinitions."""
    documents = re.split(r"^---\s*?\n", text, flags=re.MULTILINE)
    return "---\n".join(item for item in documents if re.search("^kind: CustomResourceDefinition", item, re.MULTILINE))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
