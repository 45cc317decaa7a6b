"""The Python of a host: those that are tried, and what to install where all of them are too old.

The packages are those of the distributions themselves, without a repository of others:

    RHEL 8           python39 since 8.4, python3.11 since 8.8; python3 and platform-python are 3.6
    SLES 15          python311 since SP4, in the module Python 3; python3 is 3.6
    Ubuntu 20.04     python3.9 in universe; python3 is 3.8
"""

from collections.abc import Mapping
from typing import NamedTuple

from trackbed.fleet.archive import OLDEST

NAMES = (*(f"python3.{minor}" for minor in range(14, OLDEST[1] - 1, -1)), "python3", "/usr/libexec/platform-python")
"""The programs that are tried, in this order; the last one is the Python of dnf on RHEL."""

_NEEDED = ".".join(map(str, OLDEST))
_MAX_DIGITS = 9
"""Longest number of a release; Python converts no more than some thousand digits."""


class _Family(NamedTuple):
    """Distributions with the same packages."""

    install: str
    """The start of a command that installs a package."""

    release: int
    """The first release whose package `python3` is new enough."""

    packages: Mapping[int, str] = {}
    """Older release -> another package that is new enough."""


_RHEL = _Family("dnf install", 9, {8: "python3.11 (before 8.8: python39)"})
_SUSE = _Family("zypper install", 16, {15: "python311"})
_FAMILIES = {
    "debian": _Family("apt-get install", 11),
    "ubuntu": _Family("apt-get install", 22, {20: "python3.9"}),
    "fedora": _Family("dnf install", 33),
    "amzn": _Family("dnf install", 2023),
    "azurelinux": _Family("tdnf install", 3),
    **dict.fromkeys(("rhel", "centos", "rocky", "almalinux", "ol"), _RHEL),
    **dict.fromkeys(("sles", "sled", "sle_hpc", "opensuse-leap"), _SUSE),
}
"""By ID of os-release(5)."""


class Refusal(NamedTuple):
    """What a host without a new enough Python answers."""

    os_id: str = ""
    os_release: str = ""
    os_name: str = ""
    """ID, VERSION_ID and PRETTY_NAME of os-release(5)."""

    versions: str = ""
    """The programs that cannot be used, as "/usr/bin/python3 3.6.15, /usr/bin/python3.11 3.11.2 without json, "."""


def explain_refusal(refusal: Refusal, consequence: str) -> str:
    """Return what is wrong, the consequence, and what to do, as one line."""
    versions = refusal.versions.strip(" ,")
    fault = f"older than {_NEEDED}" if " without " not in versions else "too old, or lacks a part of its library"
    fault = f"its Python is {fault} ({versions})" if versions else "it has no Python"
    return f"{fault}, {consequence}; {_advise(refusal)}"


def _advise(refusal: Refusal) -> str:
    package = _find_package(refusal)
    if package:
        return f"install it there ({refusal.os_name}): {package}"
    place = f"{refusal.os_name} has none to install; " if refusal.os_name else ""
    return f"{place}put Python {_NEEDED} or newer on its PATH, as python3 or {NAMES[0]} to {NAMES[-3]}"


def _find_package(refusal: Refusal) -> str:
    """Return the command that installs a Python that is new enough; empty if none is known."""
    family, major = _FAMILIES.get(refusal.os_id), refusal.os_release.partition(".")[0]
    if family is None or not major.isdecimal() or len(major) > _MAX_DIGITS:
        return ""
    default = "python3" if int(major) >= family.release else ""
    package = family.packages.get(int(major), default)
    return f"{family.install} {package}" if package else ""
