"""Puts the pip of uv.lock into this virtual environment with the standard library alone.

For a Python without ensurepip (Debian and Ubuntu without python3-venv). The wheel is looked up in the index named by
PIP_INDEX_URL, else in the one uv.lock was made with, and is used only if its hash is the one in uv.lock.
PIP_CERT names the certificates to trust, as it does for pip.
"""

import hashlib
import os
import re
import ssl
import subprocess
import sys
import tempfile
import tomllib
import urllib.parse
import urllib.request
from pathlib import Path

_TIMEOUT_SECONDS = 60


def _locked_wheel() -> tuple[str, str, str]:
    """Return the file name of pip's wheel, its SHA-256, and the index uv.lock was made with."""
    lock = tomllib.loads((Path(__file__).parents[1] / "uv.lock").read_text())
    pip = next(package for package in lock["package"] if package["name"] == "pip")
    wheel = pip["wheels"][0]
    return wheel["url"].rpartition("/")[2], wheel["hash"].removeprefix("sha256:"), pip["source"]["registry"]


def _fetch(url: str) -> bytes:
    if not url.startswith(("https://", "http://")):
        message = f"{url}: only http and https indexes can be read here"
        raise ValueError(message)
    trust = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    with urllib.request.urlopen(  # noqa: S310 - the scheme is checked above
        url, timeout=_TIMEOUT_SECONDS, context=trust
    ) as answer:
        return bytes(answer.read())


def _find(page: str, page_url: str, name: str) -> str:
    """Return the address of file `name` on a project page of the simple repository API (PEP 503)."""
    for link in re.finditer(r'href="([^"#]+)', page):
        if link[1].rpartition("/")[2] == name:
            return urllib.parse.urljoin(page_url, str(link[1]))
    message = f"{page_url} does not offer {name}"
    raise LookupError(message)


def _install_pip(page_url: str, name: str, sha256: str) -> None:
    wheel = _fetch(_find(_fetch(page_url).decode(), page_url, name))
    if hashlib.sha256(wheel).hexdigest() != sha256:
        message = f"{name} from {page_url} is not the file that uv.lock names; nothing was installed"
        raise ValueError(message)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(wheel)
        # A wheel is a zip that Python can run from: here pip installs itself.
        subprocess.run(  # noqa: S603 - every part of the command is ours
            [sys.executable, f"{path}/pip", "install", "--quiet", "--no-index", str(path)], check=True, timeout=120
        )


def main() -> None:
    """Fetch pip's wheel, check it, and let it install itself."""
    name, sha256, locked_index = _locked_wheel()
    page_url = (os.environ.get("PIP_INDEX_URL") or locked_index).rstrip("/") + "/pip/"
    try:
        _install_pip(page_url, name, sha256)
    except (OSError, LookupError, ValueError, subprocess.SubprocessError) as error:
        sys.exit(
            f"no pip from {page_url}: {error}\nThis Python has no ensurepip; apt-get install python3-venv brings it."
        )


if __name__ == "__main__":
    main()
