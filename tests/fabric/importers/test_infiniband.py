"""InfiniBand in netplan: infiniband-mode, and hardware addresses of 20 octets."""

from __future__ import annotations

import pytest

from tests.fabric.importers.sites import codes, import_netplan, plain, plan_of

_MAC = "80:00:02:08:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:{host:02x}:{rail:02x}:00"


def _import(entry: str, hosts: int = 3) -> tuple[dict[str, object], list[str], list[str]]:
    """Return `spec`, codes and messages of hosts with two rails."""
    files = plain(
        {
            f"n{n}": {
                f"ib{rail}": entry.format(
                    address=f"10.{rail}.0.{16 * n}/16", mac=_MAC.format(host=n, rail=rail), rail=rail
                )
                for rail in (0, 1)
            }
            for n in range(1, hosts + 1)
        }
    )
    imported = import_netplan(files)
    assert [rail.v4 and str(rail.v4) for rail in plan_of(imported).common.rails] == ["10.0.0.0/16", "10.1.0.0/16"]
    return imported.document["spec"], codes(imported), [problem.message for problem in imported.problems]


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param("{{infiniband-mode: datagram, mtu: 2044, addresses: [{address}]}}", id="mode"),
        pytest.param(
            '{{match: {{macaddress: "{mac}"}}, set-name: ib{rail}, addresses: [{address}]}}', id="match-by-mac"
        ),
        pytest.param('{{macaddress: "{mac}", mtu: 4092, addresses: [{address}]}}', id="macaddress"),
    ],
)
def test_an_infiniband_port_is_one(entry: str) -> None:
    spec, codes_reported, _ = _import(entry)
    assert spec["linkType"] == "infiniband"
    assert "rdma" not in spec
    assert "bad-mac" not in codes_reported


def test_ethernet_is_not_said_because_it_is_the_default() -> None:
    spec, _, _ = _import("{{mtu: 9000, addresses: [{address}]}}")
    assert "linkType" not in spec


def test_a_port_matched_by_its_hardware_address_alone_is_told() -> None:
    _, codes_reported, messages = _import('{{match: {{macaddress: "{mac}"}}, addresses: [{address}]}}')
    assert set(codes_reported) == {"ib-mac"}
    assert messages[0] == (
        "a Fabric selects InfiniBand ports by PCI address or name; ib0 is taken for the port's name (3 hosts: n[1-3])"
    )


def test_connected_mode_is_told_because_no_plan_has_it() -> None:
    _, codes_reported, messages = _import("{{infiniband-mode: connected, mtu: 65520, addresses: [{address}]}}")
    assert set(codes_reported) == {"ib-mode"}
    assert "infiniband-mode connected is not in a plan, which leaves the mode as it is" in messages[0]


def test_a_port_of_another_link_type_is_an_error() -> None:
    mode = "infiniband-mode: datagram, "
    files = plain(
        {
            f"n{n}": {
                f"ib{rail}": f"{{{mode if rail or n > 1 else ''}addresses: [10.{rail}.0.{n}/16]}}" for rail in (0, 1)
            }
            for n in (1, 2, 3)
        }
    )
    imported = import_netplan(files)
    (message,) = (str(problem) for problem in imported.problems if problem.code == "mixed-links")
    assert message == (
        "n1.yaml:4:23: error: rail 0 (ib0) is ethernet, the other ports are infiniband; a Fabric has one link type; "
        "import the others as a Fabric of their own [mixed-links]"
    )
