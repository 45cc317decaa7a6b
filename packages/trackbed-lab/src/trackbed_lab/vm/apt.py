"""Debian packages, fetched and unpacked without touching this machine's own apt.

apt runs with sources, lists, cache and status in a folder of the lab. Downloads are verified against Debian's keys.
Mirrors are read at run time from this machine's apt configuration (or from $TRACKBED_DEBIAN_MIRROR), so a site's proxy
or mirror is used. Nothing is installed: dpkg-deb only unpacks.
"""

import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from trackbed_lab.processes import run_program

FETCH_SECONDS = 900
"""Limit for a download. All packages together are some 220 MB."""

MIRROR_VARIABLE = "TRACKBED_DEBIAN_MIRROR"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_TOOLS = ("apt-get", "apt-cache", "dpkg-deb")
_TARGET_FORMAT = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)"
_PINS = "Package: {packages}\nPin: release n={suite}\nPin-Priority: 990\n"


class AptError(Exception):
    """Packages could not be fetched or unpacked; the message has the end of apt's errors and what to do."""


@dataclass(frozen=True, slots=True)
class AptSource:
    """A line of sources.list: a mirror and one of its suites, component main."""

    uri: str
    suite: str

    def render(self) -> str:
        """Return the line as in sources.list(5)."""
        options = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
        return f"deb {options}{self.uri} {self.suite} main"


@dataclass(frozen=True, slots=True)
class Apt:
    """apt with its state in a folder of the lab."""

    folder: Path
    status: Path
    """dpkg's list of installed packages: this machine's, or an empty file to fetch every dependency."""

    def build_options(self) -> list[str]:
        """Return the options that keep apt inside its folder."""
        settings = {
            "Dir::State": self.folder / "state",
            "Dir::State::status": self.status,
            "Dir::Cache": self.folder / "cache",
            "Dir::Etc::SourceList": self.folder / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::Preferences": self.folder / "preferences",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "",  # the user _apt cannot write to the folder, which belongs to the caller
            "APT::Keep-Downloaded-Packages": "true",
            "DPkg::Post-Invoke::": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
        }
        return [argument for key, value in settings.items() for argument in ("-o", f"{key}={value}")]

    def update(self) -> None:
        """Fetch the package lists. Raises AptError."""
        self._run_apt("apt-get", "-qq", "update")

    def list_packages(self, prefix: str) -> list[str]:
        """Return the packages whose names begin with `prefix`, sorted."""
        return sorted(self._run_apt("apt-cache", "pkgnames", prefix).split())

    def fetch(self, packages: Sequence[str]) -> list[Path]:
        """Fetch packages and their dependencies that are not installed; return the files. Raises AptError."""
        arguments = ("-y", "-qq", "--no-install-recommends", "install", *packages)
        uris = self._run_apt("apt-get", "--print-uris", *arguments)
        names = [_parse_file_name(line) for line in uris.splitlines() if line]
        self._run_apt("apt-get", "--download-only", *arguments)
        return [self.folder / "cache" / "archives" / name for name in names]

    def fetch_without_dependencies(self, packages: Sequence[str], folder: Path) -> list[Path]:
        """Fetch packages without their dependencies into `folder`; return the files. Raises AptError."""
        folder.mkdir(parents=True, exist_ok=True)
        self._run_apt("apt-get", "-qq", "download", *packages, folder=folder)
        return sorted(folder.glob("*.deb"))

    def _run_apt(self, program: str, *arguments: str, folder: Path | None = None) -> str:
        return run_tool([program, *self.build_options(), *arguments], folder or self.folder)


def prepare_apt(
    folder: Path, sources: Sequence[AptSource], *, fresh: bool, prefer: str = "", packages: str = ""
) -> Apt:
    """Configure an apt in `folder` with these sources.

    With `fresh`, no package is considered installed. `prefer` is a suite that is preferred for `packages` (names or
    patterns of apt_preferences(5)).
    """
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "sources.list").write_text("".join(f"{source.render()}\n" for source in sources))
    (folder / "preferences").write_text(_PINS.format(packages=packages, suite=prefer) if prefer else "")
    (folder / "empty").touch()
    return Apt(folder, folder / "empty" if fresh else Path("/var/lib/dpkg/status"))


def unpack(package: Path, folder: Path) -> None:
    """Unpack a package below `folder`. Raises AptError."""
    folder.mkdir(parents=True, exist_ok=True)
    run_tool(["dpkg-deb", "-x", str(package), str(folder)], folder)


def find_missing_tools() -> list[str]:
    """Return the programs of apt and dpkg that this machine lacks."""
    return [name for name in _TOOLS if shutil.which(name) is None]


def read_codename() -> str:
    """Return the release of this machine ("bookworm"), or "" where os-release has none."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def read_sources() -> list[AptSource]:
    """Return the sources of Debian's component main in this machine's apt configuration. Raises AptError."""
    targets = run_tool(["apt-get", "indextargets", "--format", _TARGET_FORMAT, "Created-By: Packages"], Path.cwd())
    return parse_targets(targets, read_codename())


def parse_targets(targets: str, release: str) -> list[AptSource]:
    """Return the sources of Debian's `release`, its updates and security fixes.

    `targets` has lines "URI SUITE COMPONENT ORIGIN"; the other lines are ignored.
    """
    suites = {release, f"{release}-updates", f"{release}-security"}
    sources = []
    for fields in (line.split() for line in targets.splitlines()):
        if len(fields) < 3 or fields[1] not in suites or fields[2] != "main":  # noqa: PLR2004 - URI, suite, component
            continue
        if fields[3:] in ([], ["Debian"]):  # the origin is unknown before the first `apt-get update`
            sources.append(AptSource(fields[0].rstrip("/"), fields[1]))
    return list(dict.fromkeys(sources))


def choose_mirror(sources: Sequence[AptSource], release: str) -> str:
    """Return $TRACKBED_DEBIAN_MIRROR, else the URI from which `sources` get `release`. Raises AptError."""
    override = os.environ.get(MIRROR_VARIABLE)
    if override:
        return override.rstrip("/")
    for source in sources:
        if source.suite == release:
            return source.uri
    raise AptError(
        f"this machine's apt names no mirror of Debian {release or '(release unknown)'} main;"
        f" name one with {MIRROR_VARIABLE}=URL"
    )


def run_tool(argv: Sequence[str], folder: Path, **environment: str) -> str:
    """Run a program of apt or dpkg and return its output.

    Raises:
        AptError: it failed or took too long; the message has the end of its errors.
    """
    variables = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", **environment}
    process = run_program(argv, FETCH_SECONDS, AptError, folder, variables)
    if process.returncode != 0:
        errors = "\n".join(process.stderr.strip().splitlines()[-6:])
        raise AptError(f"{argv[0]} {' '.join(_drop_options(argv))} ended with {process.returncode}:\n{errors}")
    return process.stdout


def _drop_options(argv: Sequence[str]) -> list[str]:
    """Return the arguments without the program and without `-o KEY=VALUE`."""
    return [argument for previous, argument in pairwise(argv) if "-o" not in {previous, argument}]


def _parse_file_name(line: str) -> str:
    """Return the file name of a line 'URI' NAME SIZE HASH."""
    return line.split()[1]
