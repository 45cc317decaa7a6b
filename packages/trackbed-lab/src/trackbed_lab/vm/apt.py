"""Packages of Debian's archive, fetched and unpacked without touching the machine's own apt.

apt runs with sources, lists, cache and status of its own in a folder of ours; what it fetches it checks against
Debian's keys as always. Mirrors come from the machine's own apt configuration, asked at run time (or from
$TRACKBED_DEBIAN_MIRROR), so a site's proxy or mirror is used here too. Nothing is installed: dpkg-deb only unpacks.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

FETCH_SECONDS = 900
"""Everything together is some 220 MB; on a fast line it takes seconds."""

MIRROR_VARIABLE = "TRACKBED_DEBIAN_MIRROR"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_TOOLS = ("apt-get", "apt-cache", "dpkg-deb")
_TARGETS = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)"
_PINS = "Package: {packages}\nPin: release n={suite}\nPin-Priority: 990\n"


class AptError(Exception):
    """Packages could not be fetched or unpacked; the message says what apt said and what to do."""


@dataclass(frozen=True, slots=True)
class AptSource:
    """One line of sources: a mirror and a suite of it, component main."""

    uri: str
    suite: str

    def render(self) -> str:
        """As in sources.list(5)."""
        keys = f"[signed-by={_KEYS}] " if _KEYS.exists() else ""
        return f"deb {keys}{self.uri} {self.suite} main"


@dataclass(frozen=True, slots=True)
class Apt:
    """apt with a folder of its own."""

    folder: Path
    status: Path
    """What counts as installed: the machine's, or an empty file to fetch everything that is needed."""

    def build_options(self) -> list[str]:
        """What keeps apt inside its folder."""
        told = {
            "Dir::State": self.folder / "state",
            "Dir::State::status": self.status,
            "Dir::Cache": self.folder / "cache",
            "Dir::Etc::SourceList": self.folder / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::Preferences": self.folder / "preferences",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "",  # our folder belongs to us alone: apt's own user could not write there
            "APT::Keep-Downloaded-Packages": "true",
            "DPkg::Post-Invoke::": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
        }
        return [word for key, value in told.items() for word in ("-o", f"{key}={value}")]

    def update(self) -> None:
        """Fetch the lists. Raises AptError."""
        self._run("apt-get", "-qq", "update")

    def list_packages(self, prefix: str) -> list[str]:
        """Packages that begin with `prefix`, sorted."""
        return sorted(self._run("apt-cache", "pkgnames", prefix).split())

    def fetch(self, packages: Sequence[str]) -> list[Path]:
        """Fetch packages and all they need that is not installed; their files. Raises AptError."""
        wanted = ("-y", "-qq", "--no-install-recommends", "install", *packages)
        names = [_file_name(line) for line in self._run("apt-get", "--print-uris", *wanted).splitlines() if line]
        self._run("apt-get", "--download-only", *wanted)
        return [self.folder / "cache" / "archives" / name for name in names]

    def fetch_only(self, packages: Sequence[str], folder: Path) -> list[Path]:
        """Fetch just these packages into `folder`, nothing that they need; their files. Raises AptError."""
        folder.mkdir(parents=True, exist_ok=True)
        self._run("apt-get", "-qq", "download", *packages, folder=folder)
        return sorted(folder.glob("*.deb"))

    def _run(self, program: str, *words: str, folder: Path | None = None) -> str:
        return run_tool([program, *self.build_options(), *words], folder or self.folder)


def prepare_apt(
    folder: Path, sources: Sequence[AptSource], *, fresh: bool, prefer: str = "", packages: str = ""
) -> Apt:
    """An Apt in `folder` with these sources. `fresh`: nothing counts as installed.

    `prefer` is a suite that wins for `packages` (names or patterns of apt_preferences(5)).
    """
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "sources.list").write_text("".join(f"{one.render()}\n" for one in sources))
    (folder / "preferences").write_text(_PINS.format(packages=packages, suite=prefer) if prefer else "")
    (folder / "empty").touch()
    return Apt(folder, folder / "empty" if fresh else Path("/var/lib/dpkg/status"))


def unpack(package: Path, folder: Path) -> None:
    """Unpack a package below `folder`. Raises AptError."""
    folder.mkdir(parents=True, exist_ok=True)
    run_tool(["dpkg-deb", "-x", str(package), str(folder)], folder)


def find_missing_tools() -> list[str]:
    """Programs needed here that this machine lacks."""
    return [name for name in _TOOLS if shutil.which(name) is None]


def read_codename() -> str:
    """The release of this machine ("bookworm"), empty if it does not say."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def read_sources() -> list[AptSource]:
    """The sources of Debian's main component that this machine's apt has. Raises AptError."""
    listed = run_tool(["apt-get", "indextargets", "--format", _TARGETS, "Created-By: Packages"], Path.cwd())
    return parse_targets(listed, read_codename())


def parse_targets(targets: str, release: str) -> list[AptSource]:
    """Of lines "URI SUITE COMPONENT ORIGIN" those that are Debian's `release`, its updates and its security fixes."""
    suites = {release, f"{release}-updates", f"{release}-security"}
    found = []
    for words in (line.split() for line in targets.splitlines()):
        if len(words) < 3 or words[1] not in suites or words[2] != "main":  # noqa: PLR2004 - URI, suite, component
            continue
        if words[3:] in ([], ["Debian"]):  # before the first `apt-get update` no origin is known
            found.append(AptSource(words[0].rstrip("/"), words[1]))
    return list(dict.fromkeys(found))


def choose_mirror(sources: Sequence[AptSource], release: str) -> str:
    """The mirror that has every suite: $TRACKBED_DEBIAN_MIRROR, else the one of this machine. Raises AptError."""
    named = os.environ.get(MIRROR_VARIABLE)
    if named:
        return named.rstrip("/")
    for one in sources:
        if one.suite == release:
            return one.uri
    raise AptError(
        f"this machine's apt names no mirror of Debian {release or '(release unknown)'} main;"
        f" name one with {MIRROR_VARIABLE}=URL"
    )


def run_tool(argv: Sequence[str], folder: Path, **environment: str) -> str:
    """What a program prints. Raises AptError with the end of what it said when it fails or takes too long."""
    try:
        done = subprocess.run(  # noqa: S603 - apt and dpkg-deb with arguments of ours
            argv,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AptError(f"{argv[0]}: {error}") from error
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-6:])
        raise AptError(f"{argv[0]} {' '.join(_words(argv))} ended with {done.returncode}:\n{last}")
    return done.stdout


def _words(argv: Sequence[str]) -> list[str]:
    """The arguments without apt's many -o."""
    return [word for before, word in pairwise(argv) if "-o" not in {before, word}]


def _file_name(line: str) -> str:
    """The name in apt's cache, from a line 'URI' NAME SIZE HASH."""
    return line.split()[1]
