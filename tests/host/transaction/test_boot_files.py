from __future__ import annotations

import subprocess

import pytest

from tests.host.places import MACS, PORTS, Host, everything, install_netplan
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import everything_below, grow
from trackbed.host.network_manager import ManagerError
from trackbed.host.render import FORMATS
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import apply, undo
from trackbed.host.transaction.boot_files import BootFiles, select_files
from trackbed.host.transaction.files import write_file
from trackbed.kernel.netlink.links import build_create_bridge, build_create_macvlan, build_set_link
from trackbed.kernel.netlink.routes import Route, build_add_route

NODE = node_plan(P2P, PORTS)
ENTRY = "10-netplan-enp24s0f0np0"
MAAS = f"""\
network:
  version: 2
  ethernets:
    enp24s0f0np0:
      match:
        macaddress: {MACS[0]}
      mtu: 1500
      set-name: enp24s0f0np0
"""


def select(place: Host, persist: str = "auto") -> BootFiles:
    return select_files(place.machine, NODE, persist, lambda chosen: FORMATS[chosen](NODE))


def generate(place: Host, match: str, network: str = "", stem: str = ENTRY) -> None:
    """Write what netplan generates of an entry (netplan 0.106: write_link_file, write_network_file)."""
    link = f"[Match]\n{match}\n\n[Link]\nName=enp24s0f0np0\n"
    folder = "/run/systemd/network"
    text = f"[Match]\n{match}\n\n[Network]\nLinkLocalAddressing=ipv6\n{network}\n"
    grow(place.machine.root, {f"{folder}/{stem}.link": link, f"{folder}/{stem}.network": text})


def test_the_files_are_those_of_the_manager_unless_a_format_is_given(place: Host) -> None:
    assert select(place).files == FORMATS["networkd"](NODE)
    assert select(place, "networkmanager").files == FORMATS["networkmanager"](NODE)
    assert select(place, "none").files is None


def test_netplans_entry_for_a_port_known_by_its_mac_gives_the_planned_name_and_configures_nothing(place: Host) -> None:
    install_netplan(place.machine.root, MAAS)
    generate(place, f"PermanentMACAddress={MACS[0].upper()}", "DHCP=ipv4")
    node = node_plan(P2P, '["eth0", "eth1"]')
    files, warnings = select_files(place.machine, node, "auto", lambda chosen: FORMATS[chosen](node))
    assert files is not None
    added = {path: text.partition("\n")[2] for path, text in files.items() if path not in FORMATS["netplan"](node)}
    assert added == {
        "/etc/netplan/91-trackbed-entries.yaml": "network:\n  version: 2\n  ethernets:\n"
        '    "enp24s0f0np0": {renderer: networkd, optional: true, set-name: "eth0"}\n',
        f"/etc/systemd/network/{ENTRY}.network.d/90-trackbed.conf": "\n[Match]\nName=!eth0\n",
    }
    why = "this entry is for a rail; /etc/netplan/91-trackbed-entries.yaml overrides it until --undo"
    assert warnings == (f"/etc/netplan/50-site.yaml:6: macaddress: {MACS[0]}: {why}",)


@pytest.mark.needs("netplan")
@pytest.mark.may_skip("netplan is a program of other people's hosts; emulated servers run it")
def test_netplan_itself_gives_an_overridden_port_the_planned_name(place: Host) -> None:
    root = place.machine.root
    install_netplan(root, MAAS).chmod(0o600)
    before = {path: path.read_text() for path in root.rglob("*") if path.is_file()}
    subprocess.run(["netplan", "generate", "--root-dir", root], check=True, timeout=60)
    chosen = select(place).files
    assert chosen is not None
    for path, text in chosen.items():
        write_file(place.machine, path, text.encode())
    subprocess.run(["netplan", "generate", "--root-dir", root], check=True, timeout=60)
    assert "Name=rail0" in (root / f"run/systemd/network/{ENTRY}.link").read_text()
    assert 'NAME="rail0"' in (root / "run/udev/rules.d/99-netplan-enp24s0f0np0.rules").read_text()
    assert "RequiredForOnline=no" in (root / f"run/systemd/network/{ENTRY}.network").read_text()
    assert select(place).files == chosen
    assert {path: path.read_text() for path in before} == before


def test_an_entry_that_is_overridden_stays_so_while_its_port_is_in_a_pod(place: Host) -> None:
    install_netplan(place.machine.root, MAAS)
    generate(place, f"PermanentMACAddress={MACS[0]}")
    before = select(place).files
    link = f"[Match]\nPermanentMACAddress={MACS[0]}\n\n[Link]\nName=rail0\n"  # made of the override
    grow(place.machine.root, {f"/run/systemd/network/{ENTRY}.link": link})
    with place.far.open() as far:
        place.send(build_set_link(place.index("eth0"), netns_fd=far.fileno()))
    assert select(place).files == before


def test_apply_writes_the_overrides_and_undo_takes_them_back(place: Host) -> None:
    install_netplan(place.machine.root, MAAS)
    generate(place, f"MACAddress={MACS[0]}")
    assert all("overrides it until --undo" in warning for warning in select(place).warnings)
    before = everything_below(place.machine.root)
    apply(place.machine, iter_settings(NODE), place.records, select(place).files)
    assert apply(place.machine, iter_settings(NODE), place.records, select(place).files).files == ()
    assert place.machine.read("/etc/netplan/50-site.yaml") == MAAS.strip()
    assert undo(place.machine, place.records) == ()
    assert everything_below(place.machine.root) == before


@pytest.mark.parametrize(
    ("match", "network", "message"),
    [
        (
            f"PermanentMACAddress={MACS[0]}",
            "Bond=bond0",
            r"makes rail0 of the plan a part of another interface \(bond bond0\)",
        ),
        (f"PermanentMACAddress={MACS[0]}", "VLAN=vlan7", r"another interface \(vlan vlan7\)"),
        ("Name=rail*", "", r"will match rail0 of the plan \(now eth0\), as it matches rail\*"),
        ("", "", "as it matches everything"),
    ],
    ids=["bond", "vlan", "name-pattern", "everything"],
)
def test_an_entry_that_cannot_be_overridden_is_refused_before_anything_is_changed(
    place: Host, match: str, network: str, message: str
) -> None:
    install_netplan(place.machine.root, MAAS)
    generate(place, match, network)
    before = everything(place.machine)
    with pytest.raises(ManagerError, match=message):
        select(place)
    assert everything(place.machine) == before


def test_an_entry_for_another_port_is_left_alone(place: Host) -> None:
    install_netplan(place.machine.root, MAAS)
    generate(place, "PermanentMACAddress=02:00:00:00:00:77", "Bond=bond0")
    generate(place, "Driver=virtio_net", stem="10-netplan-others")
    generate(place, "Name=en*", stem="10-netplan-names")
    assert select(place).files == FORMATS["netplan"](NODE)


def test_a_port_with_the_only_default_route_is_no_rail(place: Host) -> None:
    place.send(build_set_link(place.index("eth0"), up=True))
    place.send(build_add_route(Route(2, 254, oif=place.index("eth0"), scope=253)))
    with pytest.raises(ManagerError, match="default route leaves by eth0, which is rail0 of the plan"):
        select(place)
    place.send(build_add_route(Route(2, 254, oif=place.index("mgmt0"), scope=253, metric=100)))
    assert select(place).files == FORMATS["networkd"](NODE)


def test_a_default_route_over_what_lies_on_a_port_counts_as_the_ports(place: Host) -> None:
    place.send(build_set_link(place.index("eth0"), up=True), build_create_macvlan("upper", place.index("eth0")))
    place.send(build_set_link(place.index("upper"), up=True))
    place.send(build_add_route(Route(2, 254, oif=place.index("upper"), scope=253)))
    with pytest.raises(ManagerError, match="default route leaves by upper, on rail0;"):
        select(place)


def test_a_port_that_is_part_of_a_bridge_is_no_rail(place: Host) -> None:
    place.send(build_create_bridge("br0"))
    place.send(build_set_link(place.index("eth1"), master=place.index("br0")))
    with pytest.raises(ManagerError, match=r"eth1, which is rail1 of the plan, is a part of br0 \(bridge\)"):
        select(place)


@pytest.mark.parametrize(
    ("line", "is_read"),
    [
        ("source /etc/network/interfaces.d/*", True),
        ("source interfaces.d/*", True),
        ("source-directory /etc/network/interfaces.d", True),
        ("source /etc/network/interfaces.d/*.cfg", False),
        ("# source /etc/network/interfaces.d/*", False),
    ],
)
def test_ifupdown_must_read_the_file(place: Host, line: str, is_read: bool) -> None:
    grow(place.machine.root, {"/etc/network/interfaces": f"auto lo\niface lo inet loopback\n{line}\n"})
    if is_read:
        assert select(place, "ifupdown").files == FORMATS["ifupdown"](NODE)
        return
    with pytest.raises(ManagerError, match=r"add the line `source /etc/network/interfaces.d/trackbed` to it"):
        select(place, "ifupdown")


def test_other_files_are_searched_for_what_a_port_is_called_now_and_for_its_mac(place: Host) -> None:
    grow(place.machine.root, {"/etc/network/interfaces": "auto eth0\niface eth0 inet dhcp\n"})
    grow(place.machine.root, {"/etc/sysconfig/network-scripts/ifcfg-a": f'HWADDR="{MACS[1]}"\n'})
    by_name = node_plan(P2P, '["eth0", "eth1"]')
    _, warnings = select_files(place.machine, by_name, "auto", lambda chosen: FORMATS[chosen](by_name))
    assert [warning.partition(": this configures")[0] for warning in warnings] == [
        "/etc/network/interfaces:1: auto eth0",
        "/etc/network/interfaces:2: iface eth0 inet dhcp",
        f'/etc/sysconfig/network-scripts/ifcfg-a:1: HWADDR="{MACS[1]}"',
    ]


@pytest.mark.parametrize(
    ("path", "text", "matched"),
    [
        ("/etc/systemd/network/05-all.network", "[Match]\nType=ether\n\n[Network]\nDHCP=yes\n", "rail0, rail1"),
        ("/run/systemd/network/05-any.network", "[Match]\nName=*\n", "rail0, rail1"),
        ("/usr/lib/systemd/network/05-not.network", "[Match]\nName=!eno* rail0\n", "rail1"),
        ("/etc/systemd/network/05-first.link", "[Match]\nOriginalName=et*\n[Link]\nName=old\n", "rail0, rail1"),
        ("/etc/systemd/network/05-mac.link", f"[Match]\nPermanentMACAddress={MACS[0][:-1]}?\n", ""),
        ("/etc/systemd/network/05-other.network", "[Match]\nName=en*\n", ""),
        ("/etc/systemd/network/05-host.network", "[Match]\nName=*\nHost=elsewhere\n", ""),
        ("/etc/systemd/network/05-none.network", "[Network]\nDHCP=yes\n", ""),
        ("/etc/systemd/network/80-late.network", "[Match]\nName=*\n", ""),
    ],
)
def test_a_unit_that_matches_ports_first_is_told(place: Host, path: str, text: str, matched: str) -> None:
    grow(place.machine.root, {path: text})
    warning = f"{path}: its [Match] fits {matched} before Trackbed's file does, which has no effect then;"
    assert [text.partition(" let it")[0] for text in select(place).warnings] == ([warning] if matched else [])


def test_a_unit_that_is_hidden_or_narrowed_is_not_told(place: Host) -> None:
    hidden, folder = "05-all.network", "/etc/systemd/network"
    grow(place.machine.root, {f"/usr/lib/systemd/network/{hidden}": "[Match]\nName=*\n", f"{folder}/{hidden}": ""})
    narrowed = {"06-all.network": "[Match]\nName=*\n", "06-all.network.d/own.conf": "[Match]\nName=!rail*\n"}
    grow(place.machine.root, {f"{folder}/{name}": text for name, text in narrowed.items()})
    assert select(place).warnings == ()
