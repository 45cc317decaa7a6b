"""Files of systemd-networkd, read as networkd reads them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fabric.importers.sites import Files, addresses, codes, plan_of, planned, rendered
from trackbed.fabric.importers.interface import Interface
from trackbed.fabric.importers.networkd import import_networkd
from trackbed.fabric.importers.networkd.interfaces import NetworkdReader
from trackbed.fabric.importers.networkd.units import MAX_UNITS, read_units
from trackbed.fabric.importers.result import HostProblem
from trackbed.fabric.model.problems import SpecError

FABRICS = {
    "point-to-point": "  {rails: 4, addressing: {scheme: point-to-point, ipv4: 10.0.0.0/14}, "
    "nodes: [{hosts: 'gpu-[0-3]', ports: [eth0, eth1, eth2, eth3]}]}",
    "shared-subnet": "  {rails: 2, addressing: {scheme: shared-subnet, ipv4: 10.0.0.0/15, gateway: first}, "
    "nodes: [{hosts: 'gpu-[0-3]', ports: [eth0, eth1]}]}",
    "node-subnet": "  {rails: 2, addressing: {scheme: node-subnet, ipv4: 10.0.0.0/15}, "
    "nodes: [{hosts: 'gpu-[0-3]', ports: [eth0, eth1]}]}",
}


def read_files(files: dict[str, str], host: str = "h") -> tuple[list[Interface], list[HostProblem]]:
    """Return the interfaces and problems of a host with files by path."""
    reader = NetworkdReader(host)
    units, _ = read_units([(path, text.encode()) for path, text in files.items()])
    return list(reader.read_interfaces(units)), reader.problems


def only(files: dict[str, str]) -> Interface:
    """Return the only interface of a host."""
    [interface], _ = read_files(files)
    return interface


def port(name: str = "eth0", address: str = "10.0.0.0/31", extra: str = "") -> str:
    """Return a .network file."""
    return f"[Match]\nName={name}\n\n[Network]\nAddress={address}\n{extra}"


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS.keys())
def test_rendered_files_come_back_as_the_same_plan(fabric: str) -> None:
    imported = import_networkd(rendered(fabric, "networkd"))
    assert codes(imported) == []
    assert addresses(plan_of(imported)) == addresses(planned(fabric))


def test_the_summary_counts_files_of_networkd() -> None:
    summary = import_networkd(rendered(FABRICS["shared-subnet"], "networkd")).summary
    assert summary.endswith("4 hosts, 2 rails, 8 ports; the plan reproduces every address")
    assert "networkd files: " in summary


def test_each_address_and_route_section_stands_for_itself() -> None:
    interface = only(
        {
            "h/a.network": "[Match]\nName=eth0\n"
            "[Address]\nAddress=10.0.0.1/24\n[Address]\nAddress=10.1.0.1/24\nLabel=a\n"
            "[Route]\nDestination=10.9.0.0/16\nGateway=10.0.0.9\nTable=100\n[Route]\nDestination=10.8.0.0/16\n"
        }
    )
    assert [str(address) for address in interface.addresses] == ["10.0.0.1/24", "10.1.0.1/24"]
    assert [(str(route.to), route.via != 0, route.in_main_table) for route in interface.routes] == [
        ("10.9.0.0/16", True, False),
        ("10.8.0.0/16", False, True),
    ]
    assert str(interface.addresses[1].place) == "h/a.network:6:9"


def test_gateways_of_network_and_of_a_route_without_destination_are_default_routes() -> None:
    assert only({"h/a.network": port(extra="Gateway=10.0.0.1\n")}).has_default_route
    assert only({"h/a.network": port(extra="[Route]\nGateway=10.0.0.1\n")}).has_default_route
    assert not only({"h/a.network": port(extra="[Route]\nGateway=10.0.0.1\nTable=7\n")}).has_default_route
    assert not only({"h/a.network": port(extra="[Route]\nGateway=_dhcp4\n")}).routes


@pytest.mark.parametrize(
    "match", ["MACAddress=B8-3F-D2-00-00-01", "PermanentMACAddress=b83f.d200.0001", "Path=pci-0000:1b:00.0"]
)
def test_a_link_file_names_a_port(match: str) -> None:
    link = f"[Match]\n{match}\n[Link]\nName=rail0\nMTUBytes=9000\n"
    interface = only({"h/10.link": link, "h/20.network": port("rail0")})
    assert (interface.name, interface.mtu_bytes) == ("rail0", 9000)
    assert interface.mac == (None if "Path" in match else "b8:3f:d2:00:00:01")


def test_a_network_file_that_matches_a_mac_takes_the_name_of_the_link_file() -> None:
    mac = "MACAddress=b8:3f:d2:00:00:01"
    network = f"[Match]\n{mac}\n[Network]\nAddress=10.0.0.0/31\n"
    interface = only({"h/10.link": f"[Match]\n{mac}\n[Link]\nName=rail0\n", "h/20.network": network})
    assert (interface.name, interface.mac) == ("rail0", "b8:3f:d2:00:00:01")


def test_the_mtu_of_the_network_file_wins_and_has_suffixes() -> None:
    link = "[Match]\nOriginalName=eth0\n[Link]\nMTUBytes=1500\n"
    assert only({"h/1.link": link, "h/2.network": port(extra="[Link]\nMTUBytes=9K\n")}).mtu_bytes == 9216


def test_the_first_file_by_name_that_matches_is_used() -> None:
    files = {"h/20-b.network": port(address="10.0.0.2/31"), "h/10-a.network": port(address="10.0.0.0/31")}
    [interface], [problem] = read_files(files)
    assert str(interface.addresses[0]) == "10.0.0.0/31"
    assert (problem.code, str(problem.place)) == ("vague-match", "h/20-b.network:1:1")
    assert "never used" in problem.message


def test_a_pattern_before_a_name_takes_the_port() -> None:
    interfaces, problems = read_files(
        {"h/10.network": "[Match]\nName=e*\n[Network]\nDHCP=yes\n", "h/20.network": port()}
    )
    assert [(interface.dhcp, interface.addresses) for interface in interfaces] == [(True, ())]
    assert [problem.code for problem in problems] == ["vague-match"]


def test_a_pattern_with_addresses_is_reported() -> None:
    interfaces, [problem] = read_files({"h/10.network": port("en*")})
    assert not interfaces
    reason = "[Match] names no port literally; give it Name= or PermanentMACAddress= of one port"
    assert problem.message == f"10.network: {reason}"


@pytest.mark.parametrize(("above", "below"), [("etc", "run"), ("run", "usr/lib"), ("etc", "usr/lib")])
def test_etc_hides_run_and_run_hides_usr(above: str, below: str) -> None:
    folder = "systemd/network/10.network"
    files = {f"h/{below}/{folder}": port(address="10.0.0.2/31"), f"h/{above}/{folder}": port()}
    assert str(only(files).addresses[0]) == "10.0.0.0/31"


def test_an_empty_file_disables_the_one_it_hides() -> None:
    assert read_files({"h/usr/lib/10.network": port(), "h/etc/10.network": ""}) == ([], [])


def test_drop_ins_are_read_after_their_file_in_order_of_name() -> None:
    interface = only(
        {
            "h/etc/systemd/network/10-rail.network": port(extra="[Link]\nMTUBytes=1500\n"),
            "h/etc/systemd/network/10-rail.network.d/20.conf": "[Link]\nMTUBytes=9000\n",
            "h/run/systemd/network/10-rail.network.d/10.conf": "[Link]\nMTUBytes=4200\n"
            "[Address]\nAddress=10.5.0.1/24\n",
            "h/etc/systemd/network/10-.network.d/5.conf": "[Network]\nAddress=10.6.0.1/24\n",
            "h/etc/systemd/network/99-other.network.d/99.conf": "[Link]\nMTUBytes=1280\n",
        }
    )
    assert interface.mtu_bytes == 9000
    assert [str(address) for address in interface.addresses] == ["10.0.0.0/31", "10.6.0.1/24", "10.5.0.1/24"]


def test_an_empty_assignment_removes_those_before_it() -> None:
    interface = only({"h/1.network": port(extra="Address=\nAddress=10.3.0.1/24\n")})
    assert [str(address) for address in interface.addresses] == ["10.3.0.1/24"]


@pytest.mark.parametrize(("key", "owner"), [("Bond", "bond0"), ("Bridge", "br0")])
def test_a_port_of_a_bond_or_bridge_is_no_rail(key: str, owner: str) -> None:
    netdev = f"[NetDev]\nName={owner}\nKind={key.lower()}\n"
    interfaces, problems = read_files(
        {
            "h/1.netdev": netdev,
            "h/2.network": f"[Match]\nName=eth0\n[Network]\n{key}={owner}\n",
            "h/3.network": port(owner),
        }
    )
    assert interfaces == []
    assert sorted(problem.message for problem in problems) == sorted(
        [
            f"{key.lower()} {owner} is no rail: rails are Ethernet ports (it has 10.0.0.0/31)",
            f"eth0 is no rail: it belongs to {owner}",
        ]
    )


def test_an_address_that_networkd_chooses_is_told() -> None:
    [interface], [problem] = read_files({"h/1.network": port(extra="Address=0.0.0.0/24\n")})
    assert [str(address) for address in interface.addresses] == ["10.0.0.0/31"]
    assert (problem.code, str(problem.place)) == ("random-address", "h/1.network:6:9")


def test_infiniband_and_vrfs_are_told() -> None:
    infiniband = only({"h/1.network": port("ib0", extra="[IPoIB]\nMode=datagram\n")})
    assert (infiniband.link_type, infiniband.vrf) == ("infiniband", "")
    ethernet = only({"h/1.network": port(extra="VRF=blue\n")})
    assert (ethernet.link_type, ethernet.vrf) == ("ethernet", "blue")


def test_a_file_for_another_host_is_not_read() -> None:
    files = {"h/1.network": port().replace("Name=", "Host=gpu-1\nName=")}
    assert read_files(files, "gpu-0")[0] == []
    assert len(read_files(files, "gpu-1")[0]) == 1


def test_several_names_in_one_file_are_several_ports() -> None:
    assert [interface.name for interface in read_files({"h/1.network": port("eth0 eth1")})[0]] == ["eth0", "eth1"]


def test_comments_continuations_and_spaces_are_read_as_systemd_reads_them() -> None:
    text = "# head\n[Match]\nName = eth0 \\\n; comment inside\n  eth1\n[Network]\nAddress = 10.0.0.0/31 \n"
    interfaces, problems = read_files({"h/1.network": text})
    assert [interface.name for interface in interfaces] == ["eth0", "eth1"]
    assert problems == []


def test_a_line_that_is_no_assignment_is_reported_with_its_place() -> None:
    _, [problem] = read_units([("h/1.network", b"Name=eth0\n")])
    assert str(problem).startswith("h/1.network:1:1: warning: this line is no assignment")


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ([("h/1.network", b"[Match]\nName=\xff\n")], "not-utf8"),
        ([("h/1.network", b"#" * (1 << 20) + b"#")], "too-large"),
        ([(f"h/{number}.network", b"") for number in range(MAX_UNITS + 1)], "too-large"),
    ],
    ids=["not UTF-8", "large", "many"],
)
def test_a_hostile_file_is_refused_with_its_place(files: list[tuple[str, bytes]], code: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_units(files)
    assert [problem.code for problem in caught.value.problems] == [code]
    assert caught.value.problems[0].place


def test_a_million_names_are_refused() -> None:
    with pytest.raises(SpecError, match="more than 1000 ports"):
        read_files({"h/1.network": "[Match]\nName=" + " ".join(f"e{number}" for number in range(100_000))})


_VALUE = st.text("eth01.*![]:/-#= \\\n\r\x00é", max_size=12) | st.sampled_from(
    ["eth0", "eth1", "10.0.0.1/31", "b8:3f:d2:00:00:01"]
)
_KEY = st.sampled_from(
    [
        "Name",
        "MACAddress",
        "Path",
        "Type",
        "Host",
        "Address",
        "Gateway",
        "Destination",
        "Table",
        "MTUBytes",
        "Bond",
        "Kind",
    ]
)
_SECTION = st.sampled_from(["Match", "Network", "Address", "Route", "Link", "NetDev", "", "]"])
_TEXT = st.lists(st.tuples(_SECTION, st.lists(st.tuples(_KEY, _VALUE), max_size=4)), max_size=4).map(
    lambda sections: "\n".join(
        f"[{name}]\n" + "\n".join(f"{key}={value}" for key, value in entries) for name, entries in sections
    )
)
_PATH = st.sampled_from(["1.network", "2.network", "1.link", "1.netdev", "1.network.d/x.conf", "etc/1.network"])


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(["a", "b"]), st.dictionaries(_PATH, _TEXT, min_size=1), min_size=1))
def test_any_files_end_in_a_fabric_or_problems(hosts: dict[str, dict[str, str]]) -> None:
    files: Files = {
        host: [(f"{host}/{path}", text.encode()) for path, text in paths.items()] for host, paths in hosts.items()
    }
    try:
        imported = import_networkd(files)
    except SpecError as error:
        assert error.problems  # noqa: PT017 - either outcome is right
        return
    assert imported.lock
