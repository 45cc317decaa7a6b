"""netplan files that do not match those of other hosts, and the exact problems."""

from __future__ import annotations

import pytest

from trackbed.fabric.importers.netplan import import_netplan
from trackbed.fabric.model.problems import SpecError


def port(rail: int, number: int, suffix: str = "") -> str:
    """Return the netplan entry of a port on a routed /31."""
    route = f"{{to: 10.{rail}.0.0/16, via: 10.{rail}.0.{number + 1}}}"
    return f"{{mtu: 9000, addresses: [10.{rail}.0.{number}/31], routes: [{route}]{suffix}}}"


def host(number: int, **entries: str) -> str:
    """Return a netplan file: eth0 in line 3, eth1 in line 4, others from line 5; an empty entry is left out."""
    ports = {"eth0": port(0, number), "eth1": port(1, number)} | entries
    return "network:\n  ethernets:\n" + "".join(f"    {name}: {entry}\n" for name, entry in ports.items() if entry)


NETPLANS = {
    "rail missing": (
        host(2, eth1=""),
        (
            "b.yaml:3:35: warning: no port on rail 1 (10.1.0.0/16): null in hostPorts; if the port exists, "
            "complete the host's file [rail-missing]"
        ),
    ),
    "both rails missing": (
        host(2, eth0="", eth1=""),
        ("warning: no port on any rail; the host is left out (b) [no-port]"),
    ),
    "another prefix": (
        host(2, eth1="{mtu: 9000, addresses: [10.1.0.2/30]}"),
        (
            "error: scheme point-to-point reproduces all but 1 of 8 ports; those of b differ, each listed "
            "with its place [not-reproduced]\n"
            "b.yaml:4:35: error: b rail 1 (eth1): the file has 10.1.0.2/30, the plan 10.1.0.2/31; correct the "
            "file, or the port is renumbered [off-plan]"
        ),
    ),
    "address off the pattern": (
        host(2, eth1=port(1, 8)),
        (
            "error: scheme point-to-point reproduces all but 1 of 8 ports; those of b differ, each listed "
            "with its place [not-reproduced]\n"
            "b.yaml:4:35: error: b rail 1 (eth1): the file has 10.1.0.8/31, the plan 10.1.0.2/31; correct the "
            "file, or the port is renumbered [off-plan]"
        ),
    ),
    "address in no rail": (
        host(2, eth1="{mtu: 9000, addresses: [10.9.0.2/31]}"),
        (
            "error: scheme point-to-point reproduces all but 1 of 8 ports; those of b differ, each listed "
            "with its place [not-reproduced]\n"
            "b.yaml:4:35: error: b rail 1 (eth1): the file has 10.9.0.2/31, the plan 10.1.0.2/31; correct the "
            "file, or the port is renumbered [off-plan]\n"
            "b.yaml:4:35: error: 10.9.0.2/31 of eth1 lies in no rail's range; by its name it is the port on rail "
            "1 [stray-address]"
        ),
    ),
    "address of another host": (
        host(2, eth1=port(1, 4)),
        (
            "error: scheme point-to-point reproduces all but 1 of 8 ports; those of b differ, each listed "
            "with its place [not-reproduced]\n"
            "b.yaml:4:35: error: b rail 1 (eth1): the file has 10.1.0.4/31, the plan 10.1.0.2/31; correct the "
            "file, or the port is renumbered [off-plan]\n"
            "c.yaml:4:35: error: c eth1 has 10.1.0.4, which is already at b eth1 (b.yaml:4:35); an address "
            "belongs to one port [duplicate-address]"
        ),
    ),
    "all addresses of another host": (
        host(0),
        ("b.yaml:3:35: error: b has the addresses of a; it is left out [duplicate-host]"),
    ),
    "gateway that is not the leaf": (
        host(2, eth1="{mtu: 9000, addresses: [10.1.0.2/31], gateway4: 10.1.0.2}"),
        (
            "error: scheme point-to-point reproduces all but 1 of 8 ports; those of b differ, each listed "
            "with its place [not-reproduced]\n"
            "b.yaml:4:59: error: b rail 1 (eth1): the file's gateway is 10.1.0.2, the plan's 10.1.0.3 [off-plan]"
        ),
    ),
    "two addresses on a port": (
        host(2, eth1="{mtu: 9000, addresses: [10.1.0.2/31, 192.168.7.1/24]}"),
        (
            "b.yaml:4:48: warning: b rail 1 (eth1): 192.168.7.1/24 is an additional address; the plan has 10.1.0.2/31 "
            "only [second-address]"
        ),
    ),
    "two ports on a rail": (
        host(2, eth2=port(1, 40)),
        ("b.yaml:5:35: warning: eth2 is a second port on rail 1 beside eth1; only eth1 is used [second-port]"),
    ),
    "another MTU": (
        host(2, eth1="{mtu: 1500, addresses: [10.1.0.2/31]}"),
        ("b.yaml:4:17: warning: b rail 1 (eth1) has MTU 1500, the other ports have 9000; 9000 is planned [odd-mtu]"),
    ),
    "MTU missing": (
        host(2, eth1="{addresses: [10.1.0.2/31]}"),
        ("b.yaml:4:24: warning: b rail 1 (eth1) has no MTU, the other ports have 9000; 9000 is planned [odd-mtu]"),
    ),
    "MTU that is no number": (
        host(2, eth0=port(0, 2).replace("9000", "jumbo")),
        (
            "b.yaml:3:17: warning: mtu is 'jumbo', it must be a number from 1280 to 65535 [bad-mtu]\n"
            "b.yaml:3:17: warning: b rail 0 (eth0) has no MTU, the other ports have 9000; 9000 is planned "
            "[odd-mtu]"
        ),
    ),
    "bad address": (
        host(2, eth2="{addresses: [10.0.0.300/24]}"),
        (
            "b.yaml:5:24: warning: '10.0.0.300/24' is no address with prefix, as 172.16.0.0/31 is [bad-address]\n"
            "b.yaml:5:24: note: eth2 is no rail: it has no address [set-aside]"
        ),
    ),
    "address without prefix": (
        host(2, eth2="{addresses: [10.0.0.3]}"),
        (
            "b.yaml:5:24: warning: '10.0.0.3' is no address with prefix, as 172.16.0.0/31 is [bad-address]\n"
            "b.yaml:5:24: note: eth2 is no rail: it has no address [set-aside]"
        ),
    ),
    "bad route": (
        host(2, eth2="{routes: [{to: here, via: 10.0.0.1}]}"),
        (
            "b.yaml:5:37: warning: cannot read the route to 'here' via '10.0.0.1' [bad-route]\n"
            "b.yaml:5:26: note: eth2 is no rail: it has no address [set-aside]"
        ),
    ),
    "route without to": (
        host(2, eth2="{routes: [{via: 10.0.0.1}]}"),
        (
            "b.yaml:5:27: warning: a route must be a mapping with `to` [bad-route]\n"
            "b.yaml:5:27: note: eth2 is no rail: it has no address [set-aside]"
        ),
    ),
    "bad MAC address": (
        host(2, eth0=port(0, 2, ", match: {macaddress: 12}")),
        ("b.yaml:3:113: warning: '12' is no MAC address, write for example b8:3f:d2:00:00:01 [bad-mac]"),
    ),
    "MAC address of another port": (
        host(2, eth0=port(0, 2, ", macaddress: b8:3f:d2:00:00:01"), eth1=port(1, 2, ", macaddress: b8:3f:d2:00:00:01")),
        (
            "b.yaml:4:35: error: b eth1 has MAC address b8:3f:d2:00:00:01, which is already at b eth0; it is "
            "used for that port only [duplicate-mac]"
        ),
    ),
    "name over 15 bytes": (
        host(2, eth0=port(0, 2, ", set-name: enp123456s0f0np0")),
        ("b.yaml:3:103: warning: interface name 'enp123456s0f0np0' has 16 bytes, the kernel allows 15 [bad-name]"),
    ),
    "match by driver": (
        host(2, eth2="{match: {driver: mlx5_core}, dhcp4: true}"),
        (
            "b.yaml:5:28: warning: eth2 matches ports by a pattern or driver only; give it macaddress or "
            "set-name, or call it eth2 [vague-match]\n"
            "b.yaml:5:28: note: eth2 is no rail: DHCP gives its address [set-aside]"
        ),
    ),
    "network is a list": (
        "network: [ethernets]\n",
        (
            "error: left out, because a file of the host cannot be read (b) [left-out]\n"
            "b.yaml:1:10: error: network must be a mapping, as in `network: {version: 2, ethernets: {...}}` "
            "[wrong-shape]"
        ),
    ),
    "ethernets is a list": (
        "network: {ethernets: [eth0]}\n",
        (
            "warning: no port on any rail; the host is left out (b) [no-port]\n"
            "b.yaml:1:23: warning: network.ethernets must be a mapping of interfaces [wrong-shape]"
        ),
    ),
    "no network": (
        "ethernets: {}\n",
        (
            "error: left out, because a file of the host cannot be read (b) [left-out]\n"
            "b.yaml:1:1: error: this is no netplan file: it has no mapping `network` at the top [no-network]"
        ),
    ),
    "tab": (
        "network:\n\tethernets: {}\n",
        (
            "error: left out, because a file of the host cannot be read (b) [left-out]\n"
            "b.yaml:2:1: error: a tab indents this line; YAML allows spaces only [tab]"
        ),
    ),
    "not UTF-8": (
        b"network: {renderer: \xff}\n",
        (
            "error: left out, because a file of the host cannot be read (b) [left-out]\n"
            "b.yaml:1:21: error: byte 0xff is not UTF-8; save the file as UTF-8 [not-utf8]"
        ),
    ),
    "duplicate interface": (
        host(2) + "    eth1: {}\n",
        ("b.yaml:5:5: error: key 'eth1' stands twice in one mapping [duplicate-key]"),
    ),
    "bond": (
        host(2) + "  bonds: {bond0: {interfaces: [eth8], addresses: [10.5.0.1/24]}}\n",
        ("b.yaml:5:51: note: bond bond0 is no rail: rails are Ethernet ports (it has 10.5.0.1/24) [set-aside]"),
    ),
    "management and storage": (
        host(2, eno1="{dhcp4: true}", eno2="{addresses: [192.168.0.2/24]}"),
        (
            "b.yaml:5:19: note: eno1 is no rail: DHCP gives its address [set-aside]\n"
            "b.yaml:6:24: note: eno2 is no rail: its address is none of the rails' ranges [set-aside]"
        ),
    ),
    "member of a bond that has an address": (
        host(2, eth8="{addresses: [10.5.0.1/24]}") + "  bonds: {bond0: {interfaces: [eth8]}}\n",
        (
            "note: eth8 is no rail: it belongs to bond bond0 (it has 10.5.0.1/24) (b) [set-aside]\n"
            "b.yaml:6:32: note: bond bond0 is no rail: rails are Ethernet ports [set-aside]"
        ),
    ),
    "DHCP beside an address": (
        host(2, eth1=port(1, 2, ", dhcp4: true")),
        ("b.yaml:4:17: note: rail 1 (eth1) takes leases too; a plan turns DHCP off [lease-replaced]"),
    ),
}


@pytest.mark.parametrize(("text", "message"), NETPLANS.values(), ids=NETPLANS.keys())
def test_a_netplan_file_that_does_not_fit_its_neighbours_is_told_why(text: str | bytes, message: str) -> None:
    texts = {"a": host(0), "b": text, "c": host(4), "d": host(6)}
    files = {h: [(f"{h}.yaml", t if isinstance(t, bytes) else t.encode())] for h, t in texts.items()}
    assert "\n".join(map(str, import_netplan(files).problems)) == message


@pytest.mark.parametrize(
    ("extra", "summary"),
    [
        ({"eth2": port(1, 40)}, "every address but those of 1 second port"),
        (
            {"eth0": port(0, 2).replace("/31]", "/31, 192.168.7.1/24]"), "eth2": port(1, 40)},
            "every address but 1 additional one and those of 1 second port",
        ),
    ],
)
def test_the_summary_counts_the_addresses_that_do_not_come_back(extra: dict[str, str], summary: str) -> None:
    texts = {"a": host(0), "b": host(2, **extra), "c": host(4)}
    imported = import_netplan({name: [(f"{name}.yaml", text.encode())] for name, text in texts.items()})
    assert imported.summary.endswith(f"the plan reproduces {summary}")


def test_rails_that_no_range_covers_are_told_by_their_ranges() -> None:
    addresses = {"a": "10.0.0.1/24", "b": "203.0.113.1/24"}
    files = {
        name: [(f"{name}.yaml", host(0, eth0=f"{{addresses: [{address}]}}", eth1="").encode())]
        for name, address in addresses.items()
    }
    with pytest.raises(SpecError) as caught:
        import_netplan(files)
    [message] = [problem.message for problem in caught.value.problems if problem.code == "no-scheme"]
    assert message.endswith("10.0.0.0/24 to 203.0.113.0/24, lie so far apart that only 0.0.0.0/0 covers them")
