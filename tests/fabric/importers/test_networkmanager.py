"""Keyfiles of NetworkManager, and ifcfg files of RHEL."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fabric.importers.sites import Files, addresses, codes, plan_of, planned, rendered
from tests.fabric.importers.test_networkd import FABRICS
from trackbed.fabric.importers.interface import Interface
from trackbed.fabric.importers.networkmanager import SOURCE, import_networkmanager, read_host
from trackbed.fabric.model.problems import SpecError

HEAD = "[connection]\nid=a\ntype=ethernet\ninterface-name=eth0\n"


def read(files: dict[str, str]) -> tuple[list[Interface], list[str]]:
    """Return the interfaces of a host, and its problems as text."""
    reading = read_host("h", [(f"h/{name}", text.encode()) for name, text in files.items()])
    messages = [str(problem) for problem in reading.problems]
    return list(reading.interfaces), messages + [problem.message for problem in reading.host_problems]


def only(files: dict[str, str]) -> Interface:
    """Return the only interface of a host without problems."""
    interfaces, messages = read(files)
    assert messages == []
    [interface] = interfaces
    return interface


def describe_routes(interface: Interface) -> list[tuple[str, bool, bool]]:
    """Return (destination, whether there is a gateway, whether it is in the main table) of each route."""
    return [(str(route.to), bool(route.via), route.in_main_table) for route in interface.routes]


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS.keys())
def test_rendered_keyfiles_come_back_as_the_same_plan(fabric: str) -> None:
    imported = import_networkmanager(rendered(fabric, "networkmanager"))
    assert codes(imported) == []
    assert addresses(plan_of(imported)) == addresses(planned(fabric))


def test_the_summary_counts_connection_files() -> None:
    summary = import_networkmanager(rendered(FABRICS["shared-subnet"], "networkmanager")).summary
    assert summary == "8 connection files: 4 hosts, 2 rails, 8 ports; the plan reproduces every address"


def test_a_keyfile_has_addresses_routes_mtu_and_mac() -> None:
    text = (
        f"{HEAD}[ethernet]\nmac-address=B8:3F:D2:00:00:01\nmtu=9000\n"
        "[ipv4]\nmethod=manual\naddress1=10.0.0.2/24,10.0.0.1\naddress2=10.1.0.2/24\n"
        "route1=10.9.0.0/16,10.0.0.9,50\nroute1_options=table=100,src=10.0.0.2\nroute2=10.8.0.0/16\n"
        "[ipv6]\nmethod=manual\naddress1=fd00::2/64\ngateway=fd00::1\n"
    )
    interface = only({"a.nmconnection": text})
    assert (interface.name, interface.mac, interface.mtu_bytes) == ("eth0", "b8:3f:d2:00:00:01", 9000)
    assert [str(address) for address in interface.addresses] == ["10.0.0.2/24", "10.1.0.2/24", "fd00::2/64"]
    assert str(interface.addresses[0].place) == "h/a.nmconnection:10:10"
    assert describe_routes(interface) == [
        ("0.0.0.0/0", True, True),
        ("10.9.0.0/16", True, False),
        ("10.8.0.0/16", False, True),
        ("::/0", True, True),
    ]


def test_never_default_and_route_table_leave_the_main_table_alone() -> None:
    never = only({"a.nmconnection": f"{HEAD}[ipv4]\naddress1=10.0.0.2/24,10.0.0.1\nnever-default=true\n"})
    table = only({"a.nmconnection": f"{HEAD}[ipv4]\naddress1=10.0.0.2/24,10.0.0.1\nroute-table=7\n"})
    assert not never.has_default_route
    assert not table.has_default_route
    assert only({"a.nmconnection": f"{HEAD}[ipv4]\naddress1=10.0.0.2/24\ngateway=10.0.0.1\n"}).has_default_route


def test_a_keyfile_without_interface_name_matches_by_name_or_mac() -> None:
    head = "[connection]\ntype=802-3-ethernet\n"
    assert only({"a.nmconnection": f"{head}[match]\ninterface-name=eth5;\n"}).name == "eth5"
    interface = only({"a.nmconnection": f"{head}[802-3-ethernet]\nmac-address=b8:3f:d2:00:00:01\nmtu=4200\n"})
    assert (interface.name, interface.mac, interface.mtu_bytes) == ("", "b8:3f:d2:00:00:01", 4200)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("type=bond\ninterface-name=bond0\n", "bond bond0 is no rail: rails are Ethernet ports (it has 10.0.0.2/24)"),
        (
            "type=ethernet\ninterface-name=eth0\nmaster=bond0\n",
            "eth0 is no rail: it belongs to bond0 (it has 10.0.0.2/24)",
        ),
        (
            "type=ethernet\ninterface-name=eth0\ncontroller=br0\n",
            "eth0 is no rail: it belongs to br0 (it has 10.0.0.2/24)",
        ),
        (
            "type=ethernet\ninterface-name=eth0\nautoconnect=false\n",
            "eth0 is left out: it is not connected at boot (it has 10.0.0.2/24)",
        ),
    ],
)
def test_what_is_no_port_at_boot_is_said(lines: str, message: str) -> None:
    text = f"[connection]\n{lines}[ipv4]\naddress1=10.0.0.2/24\n"
    assert read({"a.nmconnection": text}) == ([], [message])


@pytest.mark.parametrize(
    "files",
    [
        {"a.nmconnection": "[connection]\ntype=infiniband\ninterface-name=ib0\n[infiniband]\nmtu=2044\n"},
        {"ifcfg-ib0": f"TYPE=InfiniBand\nMTU=2044\nHWADDR={':'.join(['a0'] * 20)}\n"},
    ],
    ids=["keyfile", "ifcfg"],
)
def test_infiniband_is_told(files: dict[str, str]) -> None:
    interface = only(files)
    assert (interface.name, interface.link_type, interface.mtu_bytes, interface.mac) == (
        "ib0",
        "infiniband",
        2044,
        None,
    )


@pytest.mark.parametrize("key", ["slave-type", "port-type"])
def test_a_port_of_a_vrf_is_a_port(key: str) -> None:
    assert only({"a.nmconnection": f"{HEAD}master=blue\n{key}=vrf\n"}).vrf == "blue"


def test_a_profile_that_names_no_port_is_told() -> None:
    text = "[connection]\ntype=ethernet\n[match]\ninterface-name=en*;\n[ipv4]\naddress1=10.0.0.2/24\n"
    message = "the profile names no port; give it an interface name or a MAC address (it has 10.0.0.2/24)"
    assert read({"a.nmconnection": text}) == ([], [message])


def test_of_two_profiles_the_one_with_the_higher_priority_counts() -> None:
    low = f"{HEAD}[ipv4]\naddress1=10.0.0.2/24\n"
    high = low.replace("id=a\n", "autoconnect-priority=999\n").replace("10.0.0.2", "10.0.0.3")
    [interface], [message] = read({"a.nmconnection": low, "b.nmconnection": high})
    assert str(interface.addresses[0]) == "10.0.0.3/24"
    assert message == "eth0 has a second profile at h/b.nmconnection:1:1, which connects instead of this one"


def test_a_profile_in_etc_hides_the_one_of_the_same_name() -> None:
    text = f"{HEAD}[ipv4]\naddress1=10.0.0.2/24\n"
    files = {"usr/lib/NetworkManager/a.nmconnection": text.replace("0.2/", "0.9/"), "etc/a.nmconnection": text}
    assert str(only(files).addresses[0]) == "10.0.0.2/24"


def test_an_ifcfg_file_has_addresses_mtu_mac_and_routes() -> None:
    interface = only({
        "ifcfg-eth0": '# Ethernet\nDEVICE="eth0"\nHWADDR=B8:3F:D2:00:00:01\nIPADDR=10.0.0.2 # first\n'
        "NETMASK=255.255.255.0\n"
        "IPADDR1=10.1.0.2\nPREFIX1=31\nGATEWAY='10.0.0.1'\nMTU=9000\nexport ONBOOT=yes\nIPV6ADDR=fd00::2/64\n",
        "route-eth0": "10.9.0.0/16 via 10.0.0.9 dev eth0 table 100 # rail\nto 10.8.0.0/16 dev eth0\n"
        "default via 10.0.0.1 dev eth0 table 101\nunreachable 10.7.0.0/16\n",
        "route6-eth0": "fd01::/64 via fd00::1\n",
        "rule-eth0": "from 10.0.0.2 table 100\n",
    })  # fmt: skip
    assert (interface.name, interface.mac, interface.mtu_bytes) == ("eth0", "b8:3f:d2:00:00:01", 9000)
    assert [str(address) for address in interface.addresses] == ["10.0.0.2/24", "10.1.0.2/31", "fd00::2/64"]
    assert str(interface.addresses[0].place) == "h/ifcfg-eth0:4:8"
    assert describe_routes(interface) == [
        ("0.0.0.0/0", True, True),
        ("10.9.0.0/16", True, False),
        ("10.8.0.0/16", False, True),
        ("0.0.0.0/0", True, False),
        ("fd01::/64", True, True),
    ]


def test_a_netmask_with_a_typing_error_is_told_with_its_place() -> None:
    reading = read_host("h", [("h/ifcfg-x", b"IPADDR=10.0.0.2\nNETMASK=255.255.225.0\n")])
    [netmask] = reading.host_problems
    assert netmask.message == "'255.255.225.0' is no netmask, as 255.255.255.0 is; 10.0.0.2 is left out"
    assert str(netmask.place) == "h/ifcfg-x:2:9"


def test_numbered_routes_are_read() -> None:
    interface = only({
        "ifcfg-eth0": "IPADDR=10.0.0.2\nPREFIX=24\n",
        "route-eth0": "ADDRESS0=10.9.0.0\nNETMASK0=255.255.0.0\nGATEWAY0=10.0.0.9\n"
        "ADDRESS1=10.8.0.1\nGATEWAY1=10.0.0.9\n",
    })  # fmt: skip
    assert describe_routes(interface) == [("10.9.0.0/16", True, True), ("10.8.0.1/32", True, True)]


def test_the_name_is_the_device_else_the_files_unless_a_mac_finds_the_port() -> None:
    assert only({"ifcfg-eth7": "BOOTPROTO=none\n"}).name == "eth7"
    assert only({"ifcfg-rail": "DEVICE=eth7\n"}).name == "eth7"
    assert only({"ifcfg-Wired_1": "HWADDR=b8:3f:d2:00:00:01\n"}).name == ""


@pytest.mark.parametrize("defroute", ["no", "No"])
def test_defroute_no_makes_no_default_route(defroute: str) -> None:
    text = f"IPADDR=10.0.0.2\nPREFIX=24\nGATEWAY=10.0.0.1\nDEFROUTE={defroute}\n"
    assert not only({"ifcfg-eth0": text}).has_default_route


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TYPE=Bond\n", "bond x is no rail: rails are Ethernet ports"),
        ("BONDING_OPTS='mode=4 miimon=100'\n", "bond x is no rail: rails are Ethernet ports"),
        ("VLAN=yes\n", "vlan x is no rail: rails are Ethernet ports"),
        ("MASTER=bond0\nSLAVE=yes\n", "x is no rail: it belongs to bond0"),
        ("BRIDGE=br0\n", "x is no rail: it belongs to br0"),
        ("ONBOOT=no\nIPADDR=10.0.0.2\nPREFIX=24\n", "x is left out: it is not connected at boot (it has 10.0.0.2/24)"),
        ("IPADDR=10.0.0.2\n", "10.0.0.2 has no PREFIX beside it, and no NETMASK; it is left out"),
    ],
)
def test_what_is_no_port_of_an_ifcfg_file_is_said(text: str, message: str) -> None:
    assert read({"ifcfg-x": text})[1] == [message]


@pytest.mark.parametrize("name", ["ifcfg-eth0.bak", "ifcfg-eth0~", "ifcfg-eth0.rpmsave", "network"])
def test_backups_are_not_read(name: str) -> None:
    assert not SOURCE.is_file(PurePosixPath(name))
    assert SOURCE.is_file(PurePosixPath("etc/sysconfig/network-scripts/ifcfg-eth0"))


def test_loopback_is_not_read() -> None:
    assert read({"ifcfg-lo": "IPADDR=127.0.0.1\nPREFIX=8\n"}) == ([], [])


def test_a_line_that_is_no_assignment_is_reported_with_its_place() -> None:
    _, messages = read({"ifcfg-eth0": "if true; then\nIPADDR='10.0.0.2\nNAME=two words\n"})
    assert [message.partition(": ")[0] for message in messages] == [
        "h/ifcfg-eth0:1:1",
        "h/ifcfg-eth0:2:1",
        "h/ifcfg-eth0:3:1",
    ]


def test_a_megabyte_in_one_value_holds_nothing_up() -> None:
    _, [message] = read({"ifcfg-a": "A='" + "x\\" * 400_000})
    assert message.startswith("h/ifcfg-a:1:1: warning: this line is no assignment")


@pytest.mark.parametrize("name", ["a.nmconnection", "ifcfg-a", "route-a"])
@pytest.mark.parametrize(("raw", "code"), [(b"\xff", "not-utf8"), (b"#" * (1 << 20) + b"#", "too-large")])
def test_a_hostile_file_is_refused_with_its_place(name: str, raw: bytes, code: str) -> None:
    files = [(f"h/{name}", raw)] + ([("h/ifcfg-a", b"IPADDR=10.0.0.2\nPREFIX=24\n")] if name == "route-a" else [])
    with pytest.raises(SpecError) as caught:
        read_host("h", files)
    [problem] = caught.value.problems
    assert (problem.code, str(problem.place)) == (code, f"h/{name}:1:1")


_VALUE = st.text("eth01.*[]:/-=\"'# ,;\\\n\r\x00é", max_size=14) | st.sampled_from(["eth0", "10.0.0.1/31", "10.0.0.1"])
_KEYFILE = st.lists(
    st.tuples(
        st.sampled_from(
            ["[connection]", "[ipv4]", "[ethernet]", "type", "interface-name", "address1", "route1", "mtu"]
        ),
        _VALUE,
    ),
    max_size=12,
)
_IFCFG = st.lists(
    st.tuples(st.sampled_from(["DEVICE", "IPADDR", "PREFIX", "NETMASK", "GATEWAY", "MTU", "HWADDR", "TYPE"]), _VALUE),
    max_size=8,
)
_PATHS = st.dictionaries(
    st.sampled_from(["a.nmconnection", "ifcfg-eth0", "ifcfg-eth1", "route-eth0"]),
    (_KEYFILE | _IFCFG).map(lambda pairs: "\n".join(f"{k}={v}" if k[0] != "[" else k for k, v in pairs)) | _VALUE,
    min_size=1,
)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(["a", "b"]), _PATHS, min_size=1))
def test_any_files_end_in_a_fabric_or_problems(hosts: dict[str, dict[str, str]]) -> None:
    files: Files = {
        host: [(f"{host}/{path}", text.encode()) for path, text in paths.items()] for host, paths in hosts.items()
    }
    try:
        imported = import_networkmanager(files)
    except SpecError as error:
        assert error.problems  # noqa: PT017 - either outcome is right
        return
    assert imported.lock
