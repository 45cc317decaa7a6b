"""Renews and verifies the bases of the Containerfile: `ARG NAME=REGISTRY/REPOSITORY:TAG@sha256:DIGEST`.

    python -m tools.image_bases verify    the registry has each digest, and what it sends is an index with that digest
    python -m tools.image_bases renew     writes the digest that each tag has now, and prints what changed

A digest is computed from the bytes (OCI Distribution 1.1), never taken from a header. A registry on localhost is asked
without TLS.
"""

import hashlib
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import NamedTuple

CONTAINERFILE = Path(__file__).parents[1] / "Containerfile"
INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_BASE = re.compile(r"^ARG (\w+)=([^/\s]+)/([^:@\s]+):([^@\s]+)@(sha256:[0-9a-f]{64})$", re.MULTILINE)
_MAX_BYTES = 4 << 20
_SECONDS = 60
_UNAUTHORIZED = 401


class Base(NamedTuple):
    """A base image."""

    name: str
    registry: str
    repository: str
    tag: str
    digest: str


def main() -> None:
    """Verify the bases, or renew them."""
    if sys.argv[1:] not in (["verify"], ["renew"]):
        sys.exit("use: python -m tools.image_bases verify|renew")
    text = CONTAINERFILE.read_text()
    try:
        if sys.argv[1] == "verify":
            verify_bases(text)
        else:
            CONTAINERFILE.write_text(renew_bases(text))
    except (OSError, ValueError) as error:
        sys.exit(f"{CONTAINERFILE}: {error}")


def parse_bases(text: str) -> list[Base]:
    """Return the bases that a Containerfile names by digest."""
    return [Base(*match.groups()) for match in _BASE.finditer(text)]


def verify_bases(text: str) -> None:
    """Check that each base is in its registry. Raises ValueError, OSError."""
    for base in parse_bases(text):
        digest = fetch_digest(base, base.digest)
        if digest != base.digest:
            raise ValueError(f"{base.registry} sends {digest} for {base.name}={base.repository}@{base.digest}")
        print(f"{base.name}: {base.repository}@{base.digest} is there")  # noqa: T201 - the product of this program


def renew_bases(text: str) -> str:
    """Return a Containerfile with the digest that each tag has now. Raises ValueError, OSError."""
    for base in parse_bases(text):
        digest = fetch_digest(base, base.tag)
        if digest != base.digest:
            print(f"{base.name}: {base.repository}:{base.tag} is {digest} now")  # noqa: T201 - as above
            text = text.replace(f"{base.repository}:{base.tag}@{base.digest}", f"{base.repository}:{base.tag}@{digest}")
    return text


def fetch_digest(base: Base, reference: str) -> str:
    """Return the digest of the index that a tag or digest names. Raises ValueError, OSError."""
    host = "registry-1.docker.io" if base.registry == "docker.io" else base.registry
    scheme = "http" if host.split(":")[0] == "localhost" else "https"
    url = f"{scheme}://{host}/v2/{base.repository}/manifests/{reference}"
    try:
        media_type, content = _fetch_manifest(url, base)
    except urllib.error.HTTPError as error:
        raise ValueError(f"{url}: {error.code} {error.reason}") from error
    if media_type not in INDEXES:
        raise ValueError(f"{url} is {media_type}, not the index of an image for several architectures")
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _fetch_manifest(url: str, base: Base) -> tuple[str, bytes]:
    """Return the media type and the bytes of a manifest, with a token where one is asked for."""
    headers = {"Accept": ", ".join(INDEXES)}
    try:
        return _fetch(url, headers)
    except urllib.error.HTTPError as error:
        if error.code != _UNAUTHORIZED:
            raise
        token = _fetch_token(error.headers.get("WWW-Authenticate", ""), base)
    return _fetch(url, {**headers, "Authorization": f"Bearer {token}"})


def _fetch_token(challenge: str, base: Base) -> str:
    """Return a token for reading, as the registry's challenge asks for it (RFC 6750). Raises ValueError, OSError."""
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if not fields.get("realm", "").startswith(("https://", "http://localhost:")):
        raise ValueError(f"{base.registry} asks for a token in no way that is known: {challenge!r}")
    query = {"service": fields.get("service", ""), "scope": f"repository:{base.repository}:pull"}
    _, content = _fetch(f"{fields['realm']}?{urllib.parse.urlencode(query)}", {})
    return str(json.loads(content)["token"])


def _fetch(url: str, headers: dict[str, str]) -> tuple[str, bytes]:
    """Return the media type and the content of a URL. Raises OSError."""
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - https, or localhost
    with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310 - as above
        return response.headers.get_content_type(), response.read(_MAX_BYTES)


if __name__ == "__main__":
    main()
