"""Hosts with nothing but the programs of their own Debian release: a real sshd, and a Python from 3.9 on."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.fleet.debian import DebianHost, start_debian_host
from tests.host.places import MACS

pytestmark = [
    pytest.mark.nightly("three releases of Debian are fetched"),
    pytest.mark.needs("root", "ssh", "ssh-keygen", "nsenter", "unshare", "chroot", "ip"),
]

_NAME = "gpu001"
_FABRIC = {
    "apiVersion": "trackbed.dev/v1alpha1",
    "kind": "Fabric",
    "metadata": {"name": "train"},
    "spec": {
        "nodes": [{"hosts": _NAME, "hostPorts": {_NAME: list(MACS)}}],
        "rails": 2,
        "addressing": {"scheme": "node-subnet", "ipv4": "10.64.0.0/12"},
    },
}
_NETWORK = "ip -d address; ip rule; ip -6 rule; ip route show table all; ip -6 route show table all"


@pytest.fixture(scope="module")
def debian_host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DebianHost]:
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "fabric.yaml").write_text(json.dumps(_FABRIC))
    with start_debian_host(folder, request.param, _NAME) as started:
        yield started


def _show_network(debian_host: DebianHost) -> list[str]:
    """Return what iproute2 shows of the host's network.

    The kernel adds ff00::/8 to table local some time after a port has carrier, so that is left out.
    """
    return [line for line in debian_host.run(_NETWORK).splitlines() if "ff00::/8" not in line]


@pytest.mark.parametrize(
    ("debian_host", "version"),
    [
        pytest.param(
            "bullseye",
            "3.9",
            marks=pytest.mark.support("distribution", "Debian 11", "ran", "its own sshd and Python 3.9, in namespaces"),
        ),
        pytest.param(
            "bookworm",
            "3.11",
            marks=pytest.mark.support(
                "distribution", "Debian 12", "ran", "its own sshd and Python 3.11, in namespaces"
            ),
        ),
        pytest.param(
            "trixie",
            "3.13",
            marks=pytest.mark.support(
                "distribution", "Debian 13", "ran", "its own sshd and Python 3.13, in namespaces"
            ),
        ),
    ],
    indirect=["debian_host"],
)
def test_a_host_is_applied_once_and_undone_over_ssh(debian_host: DebianHost, version: str) -> None:
    assert debian_host.run("python3 --version").startswith(f"Python {version}.")
    before = _show_network(debian_host)
    applied = debian_host.run_trackbed("apply", "--nodes", _NAME, "--yes")
    assert (applied.returncode, applied.stderr) == (0, "")
    assert "changes made" in applied.stdout
    assert sum(": rail" in line for line in _show_network(debian_host)) == len(MACS)
    again = debian_host.run_trackbed("apply", "--nodes", _NAME, "--yes")
    assert again.stdout == f"[1/1] {_NAME}: as planned\n1 of 1 hosts are as planned\n"
    undone = debian_host.run_trackbed("apply", "--nodes", _NAME, "--undo", "--yes")
    assert undone.stdout.startswith(f"[1/1] {_NAME}: the state before the last apply is restored\n")
    assert _show_network(debian_host) == before


@pytest.mark.parametrize("debian_host", ["bullseye"], indirect=True)
def test_a_python_without_its_library_is_refused_with_the_package_that_has_it(debian_host: DebianHost) -> None:
    """As with Debian's python3-minimal, which has no json."""
    debian_host.run("mv /usr/lib/python3.9/json /usr/lib/python3.9/json-away")
    try:
        refused = debian_host.run_trackbed("diff", "--nodes", _NAME)
    finally:
        debian_host.run("mv /usr/lib/python3.9/json-away /usr/lib/python3.9/json")
    assert "lacks a part of its library (/usr/bin/python3.9 3.9.2 without json, " in refused.stderr
    assert "install it there (Debian GNU/Linux 11 (bullseye)): apt-get install python3" in refused.stderr
