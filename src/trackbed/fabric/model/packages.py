"""Packages that hosts install from a repository, for example DOCA-OFED and gdrcopy."""

import re
from typing import Literal

from pydantic import Field, field_validator

from trackbed.fabric.model.model import FabricModel, make_error
from trackbed.fabric.text_syntax import (
    ABSOLUTE_PATH,
    DNS_LABEL,
    PACKAGE,
    PACKAGE_VERSION,
    REPOSITORY_URL,
    REPOSITORY_WORD,
)


class RepositorySpec(FabricModel):
    """A signed repository of packages, and the packages that hosts install from it.

    Example:
        name: rdma
        manager: apt
        url: https://packages.example.com/ubuntu/
        key: /etc/apt/keyrings/rdma.asc
        suite: jammy
        components: [main]
        install:
          gdrcopy: 2.5-1
    """

    name: str
    """Name of the repository's file on hosts, as doca."""
    manager: Literal["apt", "dnf"]
    """Hosts with another package manager leave the repository out."""
    url: str
    """As https://linux.mellanox.com/public/repo/doca/2.10.0/ubuntu22.04/x86_64/."""
    key: str
    """File on each host with the public key that signs the repository (apt) or its packages (dnf)."""
    suite: str = "./"
    """Suite of an apt repository; `./` is one without suites."""
    components: tuple[str, ...] = ()
    """Components of the suite, as main."""
    install: dict[str, str] = Field(min_length=1)
    """Package -> version, as the package manager shows it."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        return _match(DNS_LABEL, value, "name of a repository; write lower case letters, digits and '-', as doca")

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        return _match(
            REPOSITORY_URL, value, "URL of a repository; it begins with https://, http:// or file:// and has no blanks"
        )

    @field_validator("key")
    @classmethod
    def _check_key(cls, value: str) -> str:
        return _match(ABSOLUTE_PATH, value, "absolute path of a key's file, as /etc/apt/keyrings/doca.asc")

    @field_validator("suite")
    @classmethod
    def _check_suite(cls, value: str) -> str:
        return _match(REPOSITORY_WORD, value, "suite of an apt repository, as ./ or jammy")

    @field_validator("components")
    @classmethod
    def _check_components(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_match(REPOSITORY_WORD, word, "component of an apt repository, as main") for word in value)

    @field_validator("install")
    @classmethod
    def _check_packages(cls, value: dict[str, str]) -> dict[str, str]:
        for package, version in value.items():
            _match(PACKAGE, package, "name of a package")
            _match(PACKAGE_VERSION, version, f"version of package {package}")
        return value


def _match(pattern: re.Pattern[str], value: str, wanted: str) -> str:
    if not pattern.fullmatch(value):
        raise make_error("bad-repository", f"{value!r} is no {wanted}")
    return value
